//! The real program, run as a user runs it: one file per part of its behaviour.

mod background;
mod cluster;
mod command_line;
mod configuration;
mod controller;
mod defects;
mod documents;
mod foreground;
mod inference;
mod kill;
mod kubectl;
mod leader_worker_set;
mod machines;
mod network;
mod node;
mod operator;
mod pods;
mod proxied;
mod refusals;
mod sandbox;
mod stores;
mod streams;
mod traces;
mod trained;
mod training;
mod volumes;
