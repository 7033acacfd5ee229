"""HTTP server of models: `bert-keras serve`, and the parts that it consists of."""
