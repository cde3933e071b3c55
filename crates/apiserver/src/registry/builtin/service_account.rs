//! ServiceAccounts.
//!
//! Upstream: pkg/registry/core/serviceaccount/strategy.go

use crate::registry::strategy::{Properties, Strategy};

pub struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn properties(&self) -> Properties {
        Properties { returns_deleted_object: true, ..Properties::DEFAULT }
    }
}
