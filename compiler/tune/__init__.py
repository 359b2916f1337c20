"""Search for schedules: spaces, features of loop nests, models that learn, methods that propose."""
