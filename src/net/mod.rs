//! Listeners and connections: frames in, responses out, limits. Sockets are known here alone.
