//! rskafka in the stories.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::Utc;
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::CertificateDer;
use serde_json::{json, Value};
use stories::{list, not_offered, number, shown, text, whole_record, written, Failure, Seen, Teller, PATIENCE};
use tokio::runtime::Runtime;

struct Rskafka {
    runtime: Runtime,
    at: Value,
}

fn main() {
    stories::main(|at| {
        let runtime = Runtime::new().expect("a runtime");
        Box::new(Rskafka { runtime, at: at.clone() })
    });
}

impl Teller for Rskafka {
    fn take(&mut self, step: &Value) -> Seen {
        self.runtime.block_on(async {
            let told = tokio::time::timeout(PATIENCE, take(&self.at, step)).await;
            told.unwrap_or_else(|late| Err(Failure::from(late)))
        })
    }
}

async fn client(at: &Value, client_id: Option<&str>) -> Result<Client, Failure> {
    let mut builder = ClientBuilder::new(vec![text(at, "bootstrap").to_string()]);
    if let Some(name) = client_id {
        builder = builder.client_id(name);
    }
    if at["mechanism"].is_string() {
        let mut trusted = rustls::RootCertStore::empty();
        for one in CertificateDer::pem_file_iter(text(at, "authority")).expect("an authority") {
            trusted.add(one.expect("a certificate"))?;
        }
        let encrypted = rustls::ClientConfig::builder().with_root_certificates(trusted).with_no_client_auth();
        let who = Credentials::new(text(at, "user").to_string(), text(at, "password").to_string());
        let mechanism = match text(at, "mechanism") {
            "SCRAM-SHA-256" => SaslConfig::ScramSha256(who),
            _ => SaslConfig::ScramSha512(who),
        };
        builder = builder.tls_config(Arc::new(encrypted)).sasl_config(mechanism);
    }
    Ok(builder.build().await?)
}

async fn take(at: &Value, step: &Value) -> Seen {
    let topic = text(step, "topic");
    match text(step, "do") {
        "produce" => produce(&partition(at, topic, None).await?, step).await,
        "press" => press(&partition(at, topic, step["client_id"].as_str()).await?, step).await,
        "read" => read(&partition(at, topic, None).await?, step).await,
        "stream" => not_offered("its producers are not idempotent"),
        "join" | "resume" | "commit" | "committed" => not_offered("no groups"),
        "open" => not_offered("no transactions"),
        "make" => not_offered("its administrator makes topics without settings, and does not add partitions"),
        "setting" => not_offered("its administrator knows no settings"),
        "bounds" => {
            let one = partition(at, topic, None).await?;
            Ok(json!([one.get_offset(OffsetAt::Earliest).await?, one.get_offset(OffsetAt::Latest).await?]))
        }
        "trim" => {
            partition(at, topic, None).await?.delete_records(number(step, "before"), 10_000).await?;
            Ok(Value::Null)
        }
        "quota" => not_offered("its administrator knows no quotas"),
        other => not_offered(&format!("no {other}")),
    }
}

async fn partition(at: &Value, topic: &str, client_id: Option<&str>) -> Result<PartitionClient, Failure> {
    Ok(client(at, client_id).await?.partition_client(topic, 0, UnknownTopicHandling::Error).await?)
}

fn record(value: Option<Vec<u8>>) -> Record {
    Record { key: None, value, headers: BTreeMap::new(), timestamp: Utc::now() }
}

async fn produce(partition: &PartitionClient, step: &Value) -> Seen {
    if step["acks"].is_string() {
        return not_offered("acks are always those of all");
    }
    let compression = match text(step, "codec") {
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => Compression::NoCompression,
    };
    let mut records = Vec::new();
    for one in list(&step["records"]) {
        let mut made = record(written(&one["value"]));
        made.key = written(&one["key"]);
        for header in list(&one["headers"]) {
            let Some(content) = written(&header[1]) else { return not_offered("headers that are null") };
            if made.headers.insert(header[0].as_str().unwrap_or("").to_string(), content).is_some() {
                return not_offered("a header has one value");
            }
        }
        records.push(made);
    }
    Ok(json!(partition.produce(records, compression).await?))
}

async fn press(partition: &PartitionClient, step: &Value) -> Seen {
    let mut acknowledged = 0;
    while acknowledged < number(step, "count") {
        let records = vec![record(Some(vec![b'x'; number(step, "size") as usize])); 10];
        acknowledged += partition.produce(records, Compression::NoCompression).await?.len() as i64;
    }
    Ok(json!({"acknowledged": acknowledged, "throttled": null}))
}

async fn read(partition: &PartitionClient, step: &Value) -> Seen {
    if step["committed"].as_bool().unwrap_or(false) {
        return not_offered("its readers know no isolation");
    }
    let mut offset = number(step, "from");
    let mut found = Vec::new();
    loop {
        let (records, _) = partition.fetch_records(offset, 1..10_000_000, 100).await?;
        for one in records {
            offset = one.offset + 1;
            let (key, value) = (one.record.key.as_deref(), one.record.value.as_deref());
            if value == Some(b"end") {
                return Ok(json!(found));
            }
            if step["whole"].as_bool().unwrap_or(false) {
                let headers = one.record.headers.iter().map(|(name, content)| (name.clone(), Some(content.clone())));
                found.push(whole_record(key, value, headers.collect()));
            } else {
                found.push(shown(value));
            }
        }
    }
}
