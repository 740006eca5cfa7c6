"""What the stories reach, scenarios and simulation together: values of request fields (`fields`),
branches of the code (`branches`)."""
