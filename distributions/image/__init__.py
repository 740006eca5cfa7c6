"""distributions.image: builds docker/Dockerfile where there is no container engine, with Debian's buildah."""
