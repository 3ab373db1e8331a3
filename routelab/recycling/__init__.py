"""How does a dense checkpoint become a Mixture-of-Experts one, and what is lost on the way?"""
