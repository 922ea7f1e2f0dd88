if __name__ != "cleave.tools":
    raise ImportError("import cleave.tools: under a second name every class would exist twice")
