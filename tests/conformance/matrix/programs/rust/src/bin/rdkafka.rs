//! rdkafka (librdkafka) in the stories.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{spawn, JoinHandle};
use std::time::Duration;

use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{json, Value};
use stories::{
    list, not_offered, number, shown, streamed, text, wait_until, whole_record, written, Belongings, Failure, Members,
    Seen, Teller, PATIENCE,
};
use tokio::runtime::Runtime;

/// Hears what a member is given and what is taken from it.
struct Heard(Arc<Mutex<Belongings>>);

impl ClientContext for Heard {}

fn partitions(list: &TopicPartitionList) -> Vec<i32> {
    list.elements().iter().map(|one| one.partition()).collect()
}

impl ConsumerContext for Heard {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(list) = rebalance {
            self.0.lock().expect("a member").revoked(partitions(list));
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(list) = rebalance {
            self.0.lock().expect("a member").assigned(partitions(list));
        }
    }
}

/// A member polls in a thread of its own.
struct Polling {
    leaving: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Polling {
    fn leave(self) {
        self.leaving.store(true, Ordering::Relaxed);
        self.thread.join().expect("a member");
    }
}

struct Rdkafka {
    runtime: Runtime,
    settings: ClientConfig,
    members: Members,
    polling: BTreeMap<String, Polling>,
    producers: BTreeMap<String, FutureProducer>,
}

fn main() {
    stories::main(|at| {
        let mut settings = ClientConfig::new();
        settings.set("bootstrap.servers", text(at, "bootstrap")).set("log_level", "0");
        if at["mechanism"].is_string() {
            settings
                .set("security.protocol", "SASL_SSL")
                .set("ssl.ca.location", text(at, "authority"))
                .set("sasl.mechanism", text(at, "mechanism"))
                .set("sasl.username", text(at, "user"))
                .set("sasl.password", text(at, "password"));
        }
        Box::new(Rdkafka {
            runtime: Runtime::new().expect("a runtime"),
            settings,
            members: Members::default(),
            polling: BTreeMap::new(),
            producers: BTreeMap::new(),
        })
    });
}

impl Drop for Rdkafka {
    fn drop(&mut self) {
        for (_, one) in std::mem::take(&mut self.polling) {
            one.leave();
        }
    }
}

impl Teller for Rdkafka {
    fn take(&mut self, step: &Value) -> Seen {
        match text(step, "do") {
            "produce" => self.produce(step),
            "stream" => self.stream(step),
            "press" => self.press(step),
            "read" => self.read(step),
            "join" => self.join(step),
            "owned" => self.members.owned(step),
            "taken" => self.members.taken(step),
            "seen" => self.members.seen(step),
            "leave" => {
                if let Some(one) = self.polling.remove(text(step, "member")) {
                    one.leave();
                }
                Ok(Value::Null)
            }
            "commit" => self.commit(step),
            "committed" => self.committed(step),
            "resume" => self.resume(step),
            "open" | "begin" | "send" | "offsets" | "end" | "finish" => self.transact(step),
            "quota" => not_offered("its administrator knows no quotas"),
            _ => self.administer(step),
        }
    }
}

type Written = (Option<Vec<u8>>, Option<Vec<u8>>, OwnedHeaders);

fn plain(value: Vec<u8>) -> Written {
    (None, Some(value), OwnedHeaders::new())
}

fn up_to_the_end(reader: &BaseConsumer) -> Result<Vec<OwnedMessage>, Failure> {
    let mut found: Vec<OwnedMessage> = Vec::new();
    let mut failed = None;
    let ended = wait_until(|| match reader.poll(Duration::from_millis(100)) {
        None => false,
        Some(Err(error)) => {
            failed = Some(error);
            true
        }
        Some(Ok(message)) => {
            let last = message.payload() == Some(b"end");
            found.push(message.detach());
            last
        }
    });
    if let Some(error) = failed {
        return Err(Failure::from(error));
    }
    if !ended {
        return Err(Failure::Refused(format!("no end behind {} records", found.len())));
    }
    found.pop();
    Ok(found)
}

fn values(messages: &[OwnedMessage]) -> Value {
    json!(messages.iter().map(|one| shown(one.payload())).collect::<Vec<_>>())
}

fn position(topic: &str, offset: i64, metadata: &str) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    let mut one = list.add_partition(topic, 0);
    one.set_offset(Offset::Offset(offset))?;
    one.set_metadata(metadata);
    Ok(list)
}

impl Rdkafka {
    fn producer(&self, more: &[(&str, &str)]) -> KafkaResult<FutureProducer> {
        let mut settings = self.settings.clone();
        settings.set("linger.ms", "5").set("message.timeout.ms", "30000").set("message.max.bytes", "2000000");
        for (name, value) in more {
            settings.set(*name, *value);
        }
        settings.create()
    }

    fn write(&self, producer: &FutureProducer, topic: &str, records: Vec<Written>) -> Result<Vec<i64>, Failure> {
        let mut sent = Vec::new();
        for (key, value, headers) in &records {
            let mut record: FutureRecord<'_, Vec<u8>, Vec<u8>> =
                FutureRecord::to(topic).partition(0).headers(headers.clone());
            record.key = key.as_ref();
            record.payload = value.as_ref();
            sent.push(producer.send_result(record).map_err(|(error, _)| Failure::from(error))?);
        }
        let mut offsets = Vec::new();
        for one in sent {
            match self.runtime.block_on(one)? {
                Ok(delivery) => offsets.push(delivery.offset),
                Err((error, _)) => return Err(Failure::from(error)),
            }
        }
        Ok(offsets)
    }

    fn produce(&self, step: &Value) -> Seen {
        let codec = step["codec"].as_str().unwrap_or("none");
        let acks = step["acks"].as_str().unwrap_or("all");
        let producer = self.producer(&[("compression.type", codec), ("acks", acks), ("linger.ms", "50")])?;
        let records = list(&step["records"]).iter().map(|one| {
            let mut headers = OwnedHeaders::new();
            for header in list(&one["headers"]) {
                let content = written(&header[1]);
                headers = headers.insert(Header { key: header[0].as_str().unwrap_or(""), value: content.as_ref() });
            }
            (written(&one["key"]), written(&one["value"]), headers)
        });
        let offsets = self.write(&producer, text(step, "topic"), records.collect())?;
        Ok(if acks == "0" { Value::Null } else { json!(offsets) })
    }

    fn stream(&self, step: &Value) -> Seen {
        let often =
            [("reconnect.backoff.ms", "10"), ("reconnect.backoff.max.ms", "50"), ("enable.idempotence", "true")];
        let producer = self.producer(&often)?;
        for first in (0..number(step, "count")).step_by(50) {
            let records = (first..first + 50).map(|one| plain(streamed(one).into_bytes()));
            self.write(&producer, text(step, "topic"), records.collect())?;
        }
        Ok(step["count"].clone())
    }

    fn press(&self, step: &Value) -> Seen {
        let producer = self.producer(&[("client.id", text(step, "client_id")), ("batch.size", "100000")])?;
        let records = vec![plain(vec![b'x'; number(step, "size") as usize]); number(step, "count") as usize];
        let offsets = self.write(&producer, text(step, "topic"), records)?;
        Ok(json!({"acknowledged": offsets.len(), "throttled": null}))
    }

    fn reading(&self, group: &str) -> ClientConfig {
        let mut settings = self.settings.clone();
        settings.set("group.id", group).set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
        settings
    }

    fn read(&self, step: &Value) -> Seen {
        let committed = step["committed"].as_bool().unwrap_or(false);
        let isolation = if committed { "read_committed" } else { "read_uncommitted" };
        let reader: BaseConsumer = self.reading("may-reader").set("isolation.level", isolation).create()?;
        reader.assign(&position(text(step, "topic"), number(step, "from"), "")?)?;
        let found = up_to_the_end(&reader)?;
        if !step["whole"].as_bool().unwrap_or(false) {
            return Ok(values(&found));
        }
        let whole = found.iter().map(|one| {
            let headers = one.headers().map_or(Vec::new(), |all| {
                all.iter().map(|header| (header.key.to_string(), header.value.map(<[u8]>::to_vec))).collect()
            });
            whole_record(one.key(), one.payload(), headers)
        });
        Ok(json!(whole.collect::<Vec<_>>()))
    }

    fn join(&mut self, step: &Value) -> Seen {
        let strategy = text(step, "strategy");
        if strategy == "sticky" {
            return not_offered("no assignor sticky");
        }
        let mut settings = self.reading(text(step, "group"));
        settings.set("partition.assignment.strategy", strategy).set("heartbeat.interval.ms", "200");
        if let Some(instance) = step["instance"].as_str() {
            settings.set("group.instance.id", instance);
        }
        let belongings = Arc::new(Mutex::new(Belongings::default()));
        let reader: BaseConsumer<Heard> = settings.create_with_context(Heard(belongings.clone()))?;
        reader.subscribe(&[text(step, "topic")])?;
        let leaving = Arc::new(AtomicBool::new(false));
        let (left, read) = (leaving.clone(), belongings.clone());
        let thread = spawn(move || {
            while !left.load(Ordering::Relaxed) {
                if let Some(Ok(message)) = reader.poll(Duration::from_millis(20)) {
                    read.lock().expect("a member").read(message.payload().unwrap_or_default());
                }
            }
        });
        let name = text(step, "member").to_string();
        self.members.0.insert(name.clone(), belongings);
        self.polling.insert(name, Polling { leaving, thread });
        Ok(Value::Null)
    }

    fn resume(&self, step: &Value) -> Seen {
        let reader: BaseConsumer = self.reading(text(step, "group")).create()?;
        reader.subscribe(&[text(step, "topic")])?;
        let found = up_to_the_end(&reader)?;
        reader.commit_consumer_state(CommitMode::Sync)?;
        Ok(values(&found))
    }

    fn commit(&self, step: &Value) -> Seen {
        let reader: BaseConsumer = self.reading(text(step, "group")).create()?;
        let wanted = position(text(step, "topic"), number(step, "offset"), text(step, "metadata"))?;
        reader.commit(&wanted, CommitMode::Sync)?;
        Ok(Value::Null)
    }

    fn committed(&self, step: &Value) -> Seen {
        let reader: BaseConsumer = self.reading(text(step, "group")).create()?;
        let mut asked = TopicPartitionList::new();
        asked.add_partition(text(step, "topic"), 0);
        let found = reader.committed_offsets(asked, PATIENCE)?;
        let one = &found.elements()[0];
        Ok(match one.offset() {
            Offset::Offset(offset) => json!({"offset": offset, "metadata": one.metadata()}),
            _ => Value::Null,
        })
    }

    fn transact(&mut self, step: &Value) -> Seen {
        let name = text(step, "producer");
        if text(step, "do") == "open" {
            let timeout = step["timeout_ms"].as_i64().unwrap_or(60_000).to_string();
            let id = text(step, "transactional_id");
            let timeouts = [("transaction.timeout.ms", timeout.as_str()), ("message.timeout.ms", timeout.as_str())];
            let producer = self.producer(&[("transactional.id", id), timeouts[0], timeouts[1]])?;
            producer.init_transactions(PATIENCE)?;
            self.producers.insert(name.to_string(), producer);
            return Ok(Value::Null);
        }
        let producer = &self.producers[name];
        let records = list(&step["values"]).iter().filter_map(written).map(plain).collect();
        match text(step, "do") {
            "begin" => producer.begin_transaction()?,
            "send" => drop(self.write(producer, text(step, "topic"), records)?),
            "offsets" => {
                let reader: BaseConsumer = self.reading(text(step, "group")).create()?;
                let member = reader.group_metadata().ok_or(Failure::Refused("no metadata of the group".to_string()))?;
                let wanted = position(text(step, "topic"), number(step, "offset"), "")?;
                producer.send_offsets_to_transaction(&wanted, &member, PATIENCE)?;
            }
            "end" if step["commit"] == json!(false) => producer.abort_transaction(PATIENCE)?,
            "end" => producer.commit_transaction(PATIENCE)?,
            _ => {
                self.write(producer, text(step, "topic"), records)?;
                producer.commit_transaction(PATIENCE)?;
            }
        }
        Ok(Value::Null)
    }

    fn administer(&self, step: &Value) -> Seen {
        let admin: AdminClient<DefaultClientContext> = self.settings.create()?;
        let options = AdminOptions::new();
        let topic = text(step, "topic");
        match text(step, "do") {
            "make" => {
                let mut wanted = NewTopic::new(topic, number(step, "partitions") as i32, TopicReplication::Fixed(1));
                for (name, value) in step["settings"].as_object().expect("settings") {
                    wanted = wanted.set(name, value.as_str().unwrap_or(""));
                }
                done(self.runtime.block_on(admin.create_topics([&wanted], &options))?)
            }
            "grow" => {
                let wanted = NewPartitions::new(topic, number(step, "partitions") as usize);
                done(self.runtime.block_on(admin.create_partitions([&wanted], &options))?)
            }
            "drop" => done(self.runtime.block_on(admin.delete_topics(&[topic], &options))?),
            "set" => {
                let wanted =
                    AlterConfig::new(ResourceSpecifier::Topic(topic)).set(text(step, "name"), text(step, "value"));
                for one in self.runtime.block_on(admin.alter_configs([&wanted], &options))? {
                    one.map_err(|(_, code)| Failure::from(KafkaError::AdminOp(code)))?;
                }
                Ok(Value::Null)
            }
            "setting" => {
                let asked = [ResourceSpecifier::Topic(topic)];
                let found = self.runtime.block_on(admin.describe_configs(&asked, &options))?.remove(0);
                let found = found.map_err(|code| Failure::from(KafkaError::AdminOp(code)))?;
                Ok(json!(found.get(text(step, "name")).and_then(|one| one.value.clone())))
            }
            "trim" => {
                self.runtime.block_on(admin.delete_records(&position(topic, number(step, "before"), "")?, &options))?;
                Ok(Value::Null)
            }
            "forget" => done(self.runtime.block_on(admin.delete_groups(&[text(step, "group")], &options))?),
            _ => self.look(step),
        }
    }

    fn look(&self, step: &Value) -> Seen {
        let reader: BaseConsumer = self.settings.create()?;
        let (topic, group) = (text(step, "topic"), text(step, "group"));
        match text(step, "do") {
            "partitions" => Ok(json!(reader.fetch_metadata(Some(topic), PATIENCE)?.topics()[0].partitions().len())),
            "bounds" => {
                let (first, last) = reader.fetch_watermarks(topic, 0, PATIENCE)?;
                Ok(json!([first, last]))
            }
            "listed" => {
                let all = reader.fetch_group_list(None, PATIENCE)?;
                Ok(json!(all.groups().iter().any(|one| one.name() == group)))
            }
            "state" => {
                let found = reader.fetch_group_list(Some(group), PATIENCE)?;
                Ok(json!(found.groups()[0].state().to_lowercase()))
            }
            other => not_offered(&format!("no {other}")),
        }
    }
}

/// Of one entry for each that was asked for.
fn done(results: Vec<Result<String, (String, rdkafka::types::RDKafkaErrorCode)>>) -> Seen {
    for one in results {
        one.map_err(|(_, code)| Failure::from(KafkaError::AdminOp(code)))?;
    }
    Ok(Value::Null)
}
