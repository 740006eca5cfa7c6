//! What the Rust programs have in common: stories are read, steps taken one after the other, what was seen is printed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

/// For anything that is waited for in a step.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Why a step gave nothing.
pub enum Failure {
    /// The client has no such thing, in a sentence.
    NotOffered(String),
    /// What the client said.
    Refused(String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Refused(format!("{error:?}"))
    }
}

pub type Seen = Result<Value, Failure>;

pub fn not_offered(reason: &str) -> Seen {
    Err(Failure::NotOffered(reason.to_string()))
}

/// Takes the steps of one story.
pub trait Teller {
    fn take(&mut self, step: &Value) -> Seen;
}

/// Tells the stories of the file that is the program's argument.
pub fn main(teller: impl Fn(&Value) -> Box<dyn Teller>) {
    let path = std::env::args().nth(1).expect("a file of stories");
    let text = std::fs::read_to_string(path).expect("stories");
    let stories: Value = serde_json::from_str(&text).expect("JSON");
    for story in stories.as_array().expect("a list") {
        let mut told = tell(teller(&story["at"]).as_mut(), list(&story["steps"]));
        told["story"] = story["name"].clone();
        println!("{told}");
    }
}

/// What was seen at each step, up to the first that is refused unexpectedly.
fn tell(teller: &mut dyn Teller, steps: &[Value]) -> Value {
    let mut observed = Vec::new();
    for step in steps {
        if step["eventually"].as_bool().unwrap_or(false) {
            wait_until(|| match teller.take(step) {
                Err(Failure::NotOffered(_)) => true,
                saw => saw.is_ok_and(|one| one == step["gives"]),
            });
        }
        match teller.take(step) {
            Ok(saw) => observed.push(saw),
            Err(Failure::NotOffered(reason)) => return json!({"not offered": reason}),
            Err(Failure::Refused(error)) => {
                observed.push(json!({"error": error}));
                if step["gives"]["error"].is_null() {
                    break;
                }
            }
        }
    }
    json!({"observed": observed})
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A text of a step; "" where there is none.
pub fn text<'a>(step: &'a Value, name: &str) -> &'a str {
    step[name].as_str().unwrap_or("")
}

pub fn number(step: &Value, name: &str) -> i64 {
    step[name].as_i64().unwrap_or(0)
}

/// A key or a value of the list.
pub fn written(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Null => None,
        Value::Object(long) => {
            let times = long["times"].as_u64().unwrap_or(0) as usize;
            Some(long["of"].as_str().unwrap_or("").repeat(times).into_bytes())
        }
        other => Some(other.as_str().unwrap_or("").as_bytes().to_vec()),
    }
}

/// As the list writes it.
pub fn shown(value: Option<&[u8]>) -> Value {
    let Some(bytes) = value else { return Value::Null };
    let text = String::from_utf8_lossy(bytes).into_owned();
    if bytes.len() > 200 && bytes.iter().all(|one| *one == bytes[0]) {
        return json!({"of": &text[..1], "times": bytes.len()});
    }
    Value::String(text)
}

/// A record as the list writes it.
pub fn whole_record(key: Option<&[u8]>, value: Option<&[u8]>, headers: Vec<(String, Option<Vec<u8>>)>) -> Value {
    let told: Vec<Value> = headers
        .into_iter()
        .map(|(name, content)| match content {
            None => json!([name]),
            Some(bytes) => json!([name, String::from_utf8_lossy(&bytes)]),
        })
        .collect();
    json!({"key": shown(key), "value": shown(value), "headers": told})
}

pub fn streamed(number: i64) -> String {
    format!("{number:0100}")
}

/// Polls for what the other side gives no notice of; whether it came.
pub fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let ends = Instant::now() + PATIENCE;
    while !condition() {
        if Instant::now() > ends {
            return false;
        }
        sleep(Duration::from_millis(10));
    }
    true
}

/// What a member of a group owns and has read.
#[derive(Default)]
pub struct Belongings {
    owned: BTreeSet<i32>,
    taken: i64,
    values: BTreeSet<Vec<u8>>,
}

impl Belongings {
    pub fn assigned(&mut self, partitions: impl IntoIterator<Item = i32>) {
        self.owned.extend(partitions);
    }

    pub fn revoked(&mut self, partitions: impl IntoIterator<Item = i32>) {
        for partition in partitions {
            if self.owned.remove(&partition) {
                self.taken += 1;
            }
        }
    }

    pub fn read(&mut self, value: &[u8]) {
        self.values.insert(value.to_vec());
    }
}

/// The members of a story, by name; these steps are alike for all clients.
#[derive(Default)]
pub struct Members(pub BTreeMap<String, Arc<Mutex<Belongings>>>);

impl Members {
    pub fn owned(&self, step: &Value) -> Seen {
        let mut found = json!({});
        let came = wait_until(|| {
            for name in step["members"].as_object().expect("members").keys() {
                found[name] = json!(self.0[name].lock().expect("a member").owned.len());
            }
            found == step["members"]
        });
        if came {
            Ok(found)
        } else {
            Err(Failure::Refused(format!("they own {found}")))
        }
    }

    pub fn taken(&self, step: &Value) -> Seen {
        let mut one = self.0[text(step, "member")].lock().expect("a member");
        Ok(json!(std::mem::take(&mut one.taken)))
    }

    pub fn seen(&self, step: &Value) -> Seen {
        let mut values = BTreeSet::new();
        wait_until(|| {
            for member in self.0.values() {
                values.extend(member.lock().expect("a member").values.iter().cloned());
            }
            values.len() as i64 >= number(step, "count")
        });
        Ok(json!(values.len()))
    }
}
