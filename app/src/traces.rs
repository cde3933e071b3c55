//! Spans of requests and reconciles, sent to a collector of OpenTelemetry (OTLP over HTTP) when the
//! environment names one by the usual variables `OTEL_*`. Off when it does not.

use std::env;
use std::time::Duration;

use anyhow::{Context as _, Result};
use apiserver::request::trace::{JoinTraces, TraceParent};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider,
};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracerProvider, Tracer};
use tokio::runtime::Runtime;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The variables of which one must name the collector.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// What the spans of the program are told apart by in filters.
pub const TARGET: &str = "setpoint::spans";
/// How long a collector may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// A collector answers with next to nothing.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Sends what is left when it is dropped.
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// What the environment asks for, if it asks.
    pub fn from_environment() -> Result<Option<Traces>> {
        let is = |name: &str, value: &str| env::var(name).is_ok_and(|set| set == value);
        let is_named = ENDPOINTS.iter().any(|name| env::var(name).is_ok_and(|at| !at.is_empty()));
        if !is_named || is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(None);
        }
        let exporter = SpanExporter::builder().with_http().with_http_client(Client::new()?).build();
        let exporter = exporter.context(
            "OTEL_EXPORTER_OTLP_ENDPOINT names no collector; write one such as \
             http://127.0.0.1:4318",
        )?;
        let mut resource = Resource::builder();
        if env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("setpoint");
        }
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_batch_exporter(exporter)
            .build();
        Ok(Some(Traces { provider }))
    }

    pub fn tracer(&self) -> Tracer {
        self.provider.tracer("setpoint")
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // Nobody is left to be told that a collector is gone.
        let _ = self.provider.shutdown();
    }
}

/// Makes the spans of requests parts of their callers' traces.
pub struct Joined;

impl JoinTraces for Joined {
    fn join(&self, span: &Span, caller: Option<TraceParent>) -> Option<TraceParent> {
        if let Some(TraceParent { trace, span: of_caller, flags }) = caller {
            let (trace, of_caller) = (TraceId::from(trace), SpanId::from(of_caller));
            let flags = TraceFlags::new(flags);
            let parent = SpanContext::new(trace, of_caller, flags, true, TraceState::default());
            // It fails where nobody collects spans, which is told below.
            let _ = span.set_parent(Context::new().with_remote_span_context(parent));
        }
        let context = span.context();
        let ours = context.span().span_context().clone();
        ours.is_valid().then(|| TraceParent {
            trace: u128::from_be_bytes(ours.trace_id().to_bytes()),
            span: u64::from_be_bytes(ours.span_id().to_bytes()),
            flags: ours.trace_flags().to_u8(),
        })
    }
}

/// Sends from the exporter's own thread, with a runtime of its own: the program's may be gone.
#[derive(Debug)]
struct Client {
    runtime: Runtime,
    client: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Client {
    fn new() -> Result<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let roots = hyper_rustls::HttpsConnectorBuilder::new().with_native_roots();
        let connector = roots
            .context("could not read the certificates of this machine")?
            .https_or_http()
            .enable_http1()
            .build();
        let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Client { runtime, client })
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = request.map(Full::new);
        let exchange = async {
            let (parts, body) = self.client.request(request).await?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
            Ok(Response::from_parts(parts, body))
        };
        self.runtime.block_on(async { tokio::time::timeout(ANSWER_MAX, exchange).await? })
    }
}
