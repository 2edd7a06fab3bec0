//! Sending to platforms, played over real sockets.
