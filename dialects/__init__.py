if __name__ != "cleave.dialects":
    raise ImportError("import cleave.dialects: under a second name every class would exist twice")
