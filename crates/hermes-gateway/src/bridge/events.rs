//! What happened in the conversations of a home, as a log with cursors that survive restarts.
