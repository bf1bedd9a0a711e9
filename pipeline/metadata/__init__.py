"""What the files of a release hold, in the vocabularies of catalogues: Data Package, CSVW, schema.org and DCAT."""
