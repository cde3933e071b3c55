//! Server-side apply: sets of fields, who owns them, merging and conflicts.
//!
//! Knows nothing of a server: objects are JSON, their shape is told by the caller.
