"""Saccade behind other packages' interfaces. Each module needs that package, and is imported by itself."""
