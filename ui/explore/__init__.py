"""The Explore page in parts: questions, jobs in the background, views of their answers, and what to do with a point."""
