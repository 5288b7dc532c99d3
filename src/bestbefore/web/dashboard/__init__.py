"""The pages for people, beside the API: rendered here, read and worked with in any browser."""
