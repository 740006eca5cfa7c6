"""distributions: what is handed out (sdist, wheel, image, unit, chart, documents), made and tried as users have it."""
