//! Webhooks at a loopback URL, where the administrator allows them.

use apiserver::start::Settings;
use apiserver::webhooks::addresses::LoopbackWebhooks;
use serde_json::json;

use crate::setting::{MAPS, Setting, admin, map};

#[tokio::test]
async fn loopback_webhook_urls_are_called_where_they_are_allowed() {
    let loopback_webhooks = LoopbackWebhooks::Allow;
    let setting = Setting::start_with(Settings { loopback_webhooks, ..Default::default() }).await;
    let webhook = setting.webhook.of("u", "/deny", json!({}));
    setting.register_as(admin(), "validating", "c", json!([webhook])).await;
    let (code, message) = setting.refused(&format!("POST {MAPS}"), &map("x")).await;
    assert_eq!((code, message.contains("denied the request")), (400, true), "{message}");
    setting.unregister("validating", "c").await;
    // Nothing else than the loopback address itself is allowed.
    for host in ["0.0.0.0", "169.254.169.254", "[64:ff9b::a9fe:a9fe]", "[fd00:ec2::254]"] {
        let mut webhook = setting.webhook.of("u", "/allow", json!({}));
        webhook["clientConfig"]["url"] = json!(format!("https://{host}:9/allow"));
        setting.register_as(admin(), "validating", "c", json!([webhook])).await;
        let (code, message) = setting.refused(&format!("POST {MAPS}"), &map("x")).await;
        assert_eq!(code, 500, "{host}");
        assert!(message.contains("addresses of this machine"), "{host}: {message}");
        setting.unregister("validating", "c").await;
    }
}

#[tokio::test]
async fn a_refused_loopback_url_names_the_setting_that_allows_it() {
    let setting = Setting::start().await;
    let webhook = setting.webhook.of("u", "/allow", json!({}));
    setting.register_as(admin(), "validating", "c", json!([webhook])).await;
    let (_, message) = setting.refused(&format!("POST {MAPS}"), &map("x")).await;
    assert!(message.contains("webhooks.loopback: allow"), "{message}");
}
