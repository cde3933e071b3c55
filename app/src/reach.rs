//! How a cluster of a kubeconfig is reached: as whom is the client library's business
//! (certificates, tokens, programs that print one, OpenID Connect), by which proxy is decided here,
//! as kubectl has it.

use std::env;

use anyhow::{Context, Result};
use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// What a proxy is spoken to in where it does not say so itself.
const USUAL_SCHEME: &str = "http://";

/// What a client needs to know to reach the cluster that the options pick.
pub async fn configure(
    kubeconfig: Kubeconfig,
    options: &KubeConfigOptions,
) -> Result<kube::Config> {
    let said = proxy_said(&kubeconfig, options);
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, options).await?;
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    // The library's own choice knows no address of this machine, and compares NO_PROXY with the
    // proxy in place of the cluster.
    config.proxy_url = match proxy(&config.cluster_url, said, variable) {
        Some(proxy) => {
            let parsed = proxy.parse::<Uri>();
            Some(parsed.with_context(|| format!("{proxy:?} is no address of a proxy"))?)
        }
        None => None,
    };
    Ok(config)
}

/// The proxy that the kubeconfig names for its cluster.
fn proxy_said(kubeconfig: &Kubeconfig, options: &KubeConfigOptions) -> Option<String> {
    let context = options.context.as_ref().or(kubeconfig.current_context.as_ref());
    let context = kubeconfig.contexts.iter().find(|one| Some(&one.name) == context);
    let of_context = || context?.context.as_ref().map(|context| &context.cluster);
    let cluster = options.cluster.as_ref().or_else(of_context)?;
    let cluster = kubeconfig.clusters.iter().find(|one| &one.name == cluster)?;
    cluster.cluster.as_ref()?.proxy_url.clone().filter(|proxy| !proxy.is_empty())
}

/// Returns the proxy that the environment names for a URL.
pub fn proxy_of_environment(url: &Uri) -> Option<String> {
    proxy(url, None, |name| env::var(name).ok().filter(|value| !value.is_empty()))
}

/// The kubeconfig's own, else that of the environment; never for what is on this machine.
fn proxy(
    cluster: &Uri,
    said: Option<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    if said.is_some() {
        return said;
    }
    if is_here(cluster) {
        return None;
    }
    let either = |large: &str, small: &str| variable(large).or_else(|| variable(small));
    let proxy = match cluster.scheme_str() {
        Some("http") => either("HTTP_PROXY", "http_proxy")?,
        _ => either("HTTPS_PROXY", "https_proxy")?,
    };
    let exceptions = either("NO_PROXY", "no_proxy").unwrap_or_default();
    // Only the exceptions are asked for here; any proxy will do.
    let matcher = Matcher::builder().all(format!("{USUAL_SCHEME}any")).no(exceptions).build();
    matcher.intercept(cluster)?;
    Some(if proxy.contains("://") { proxy } else { format!("{USUAL_SCHEME}{proxy}") })
}

/// Whether an address is one of this machine alone.
fn is_here(address: &Uri) -> bool {
    let host = address.host().unwrap_or_default();
    let number = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    number.map_or(host == "localhost" || host.ends_with(".localhost"), |ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(cluster: &str, said: Option<&str>, set: &[(&str, &str)]) -> Option<String> {
        let find = |name: &str| set.iter().find(|(known, _)| *known == name);
        let variable = |name: &str| find(name).map(|(_, value)| (*value).to_owned());
        proxy(&cluster.parse().expect("an address"), said.map(str::to_owned), variable)
    }

    #[test]
    fn the_kubeconfigs_proxy_wins_then_the_environments_except_for_what_needs_none() {
        let secure = [("HTTPS_PROXY", "http://p:1")];
        let (there, here) = ("https://there:6443", "https://127.0.0.1:6443");
        let found = Some("http://p:1".to_owned());
        assert_eq!(chosen(there, None, &[]), None);
        assert_eq!(chosen(there, None, &secure), found);
        assert_eq!(chosen(there, None, &[("https_proxy", "p:1")]), found, "small, without scheme");
        assert_eq!(chosen("http://there", None, &secure), None);
        for cluster in [here, "https://[::1]:6443", "https://localhost:6443"] {
            assert_eq!(chosen(cluster, None, &secure), None, "{cluster}");
        }
        let own = Some("socks5://own:1".to_owned());
        assert_eq!(chosen(here, Some("socks5://own:1"), &secure), own);
        for exception in ["there", "10.0.0.0/8,there,", "*"] {
            let set = [secure[0], ("NO_PROXY", exception)];
            assert_eq!(chosen(there, None, &set), None, "{exception}");
        }
        let other = [secure[0], ("no_proxy", "elsewhere,10.0.0.0/8")];
        assert_eq!(chosen(there, None, &other), found);
        assert_eq!(chosen("https://10.1.2.3", None, &other), None);
    }

    #[test]
    fn the_proxy_is_that_of_the_cluster_that_is_picked() {
        let text = "current-context: a
clusters:
- {name: one, cluster: {server: 'https://one', proxy-url: 'http://p:1'}}
- {name: two, cluster: {server: 'https://two'}}
contexts:
- {name: a, context: {cluster: one}}
- {name: b, context: {cluster: two}}
";
        let said = |context: Option<&str>, cluster: Option<&str>| {
            let kubeconfig = Kubeconfig::from_yaml(text).expect("a kubeconfig");
            let own = |name: Option<&str>| name.map(str::to_owned);
            let (context, cluster) = (own(context), own(cluster));
            proxy_said(&kubeconfig, &KubeConfigOptions { context, cluster, user: None })
        };
        let found = Some("http://p:1".to_owned());
        assert_eq!(said(None, None), found);
        assert_eq!(said(Some("b"), None), None);
        assert_eq!(said(Some("b"), Some("one")), found);
    }
}
