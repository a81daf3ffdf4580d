"""ConversationService: one module for each of its subjects, each with the handlers of some
calls.
"""
