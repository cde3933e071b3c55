//! The operators against the real server, with add-ons that are played: KubeVirt, CDI, NMState, and
//! whoever binds claims.
//!
//! `rows.txt` says which test shows which row of the feature table.

mod admission;
mod definitions;
mod examples;
mod guests;
mod host;
mod kept;
mod networks;
mod oracles;
mod order;
mod others;
mod play;
mod provided;
mod rights;
mod simulation;
mod snapshots;
mod stand_ins;
mod timers;
mod world;
mod wukongs;
