//! Conversion by somebody else's program: how it is reached, as a definition says.

use serde_json::Value;

use crate::object;
use crate::server::Server;
use crate::status::Error;

/// How the converter of a definition is asked: `spec.conversion.webhook`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Either this or the service is there.
    pub url: Option<String>,
    pub service: Option<Service>,
    /// PEM in base64, as the definition has it; empty for the roots that the machine trusts.
    pub authority_bundle: String,
    /// Which versions of ConversionReview it understands, the preferred one first.
    pub review_versions: Vec<String>,
}

/// A Service that a webhook is behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub namespace: String,
    pub name: String,
    pub path: String,
    pub port: u16,
}

impl Webhook {
    /// The webhook of `spec.conversion`, if that names one.
    pub fn read(conversion: &Value) -> Option<Webhook> {
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let webhook = &conversion["webhook"];
        let client = &webhook["clientConfig"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let service = client["service"].is_object().then(|| &client["service"]);
        let service = service.map(|service| Service {
            namespace: text(&service["namespace"]).unwrap_or_default(),
            name: text(&service["name"]).unwrap_or_default(),
            path: text(&service["path"]).unwrap_or_default(),
            port: service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
        });
        Some(Webhook {
            url: text(&client["url"]),
            service,
            authority_bundle: text(&client["caBundle"]).unwrap_or_default(),
            review_versions: object::texts(&webhook["conversionReviewVersions"]),
        })
    }
}

/// Asks the webhook for the objects in another version. No webhook is asked by this server, so the
/// answer is the failure that clients know.
pub async fn convert(
    _server: &Server,
    _config: &Webhook,
    objects: Vec<Value>,
    _desired: &str,
) -> Result<Vec<Value>, Error> {
    let first = objects.first().unwrap_or(&Value::Null);
    let text = |name: &str| first[name].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let text = format!("conversion webhook for {version}, Kind={kind} failed: it cannot be asked");
    Err(Error::internal(text))
}
