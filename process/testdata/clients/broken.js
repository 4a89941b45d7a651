// A function that cannot be loaded.
throw new RangeError("no table");
