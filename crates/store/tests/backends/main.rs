//! The contract on every backend, and the embedded backend under faults.

#[cfg(test)]
mod contract_embedded;
#[cfg(test)]
mod contract_etcd;
#[cfg(test)]
mod contract_memory;
#[cfg(test)]
mod contract_mysql;
#[cfg(test)]
mod embedded_faults;
#[cfg(test)]
mod embedded_power_loss;
#[cfg(test)]
mod embedded_thinning;
