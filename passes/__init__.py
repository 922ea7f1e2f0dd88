if __name__ != "cleave.passes":
    raise ImportError("import cleave.passes: under a second name every class would exist twice")
