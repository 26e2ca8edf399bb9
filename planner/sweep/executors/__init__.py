"""Where the points of a sweep are planned: in this process, in worker processes here, or on a dask cluster."""
