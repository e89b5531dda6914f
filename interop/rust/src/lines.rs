//! Interface between the program and the test that runs it. Arguments are `name=value`, output is JSON
//! lines, and stdin has the values to produce. tests/interop/clients/lines.py describes the lines.

use std::collections::{BTreeMap, HashMap};
use std::io::{stdin, stdout, BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{json, Value};

/// The named values of the command line.
pub struct Options(HashMap<String, String>);

impl Options {
    /// The mode, and the options.
    pub fn from_arguments() -> (String, Options) {
        let mut arguments = std::env::args().skip(1);
        let mode = arguments.next().expect("consume or produce");
        let named = arguments.filter_map(|argument| {
            argument
                .split_once('=')
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        });
        (mode, Options(named.collect()))
    }

    pub fn get(&self, name: &str) -> &str {
        self.0
            .get(name)
            .unwrap_or_else(|| panic!("the option {name} is missing"))
    }

    /// Codec and the topic of its records.
    pub fn topic_of_codec(&self) -> Vec<(String, String)> {
        let codecs = self.get("codec").split(',');
        codecs
            .map(|codec| (codec.to_owned(), self.get("topic").replace("{}", codec)))
            .collect()
    }
}

static LEAVE: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_number: libc::c_int) {
    LEAVE.store(true, Ordering::Relaxed);
}

/// SIGTERM asks the program to leave from here on.
pub fn hear_wish() {
    // SAFETY: the handler does nothing but store to an atomic.
    unsafe { libc::signal(libc::SIGTERM, on_signal as *const () as libc::sighandler_t) };
}

pub fn asked_to_leave() -> bool {
    LEAVE.load(Ordering::Relaxed)
}

fn monotonic_ns() -> i64 {
    let mut clock = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `clock` is a valid timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut clock) };
    clock.tv_sec * 1_000_000_000 + clock.tv_nsec
}

fn say(event: &str, mut fields: Value) {
    fields["event"] = json!(event);
    fields["at"] = json!(monotonic_ns());
    let mut out = stdout().lock();
    writeln!(out, "{fields}")
        .and_then(|()| out.flush())
        .expect("somebody listens");
}

pub type Offsets = BTreeMap<(String, i32), i64>;

fn name(topic: &str, partition: i32) -> String {
    format!("{topic}-{partition}")
}

/// All that this member owns now.
pub fn owns<'a>(partitions: impl Iterator<Item = (&'a str, i32)>) {
    let mut names: Vec<String> = partitions
        .map(|(topic, number)| name(topic, number))
        .collect();
    names.sort();
    say("owns", json!({ "partitions": names }));
}

/// A record was processed.
pub fn record(topic: &str, partition: i32, offset: i64, value: &str) {
    say(
        "records",
        json!({ "partition": name(topic, partition), "offsets": [offset], "values": [value] }),
    );
}

/// The next offset of each partition, acknowledged by the server.
pub fn committed(offsets: &Offsets) {
    let named: BTreeMap<String, i64> = offsets
        .iter()
        .map(|((topic, number), offset)| (name(topic, *number), *offset))
        .collect();
    say("committed", json!({ "offsets": named }));
}

/// Something went wrong and is tried again.
pub fn failed(what: &str, error: impl std::fmt::Display) {
    say("failed", json!({ "what": format!("{what}: {error}") }));
}

pub fn left() {
    say("left", json!({}));
}

/// Calls `take` with key and value of each line of stdin.
pub fn keyed(mut take: impl FnMut(&str, &str)) {
    for line in stdin().lock().lines() {
        let line = line.expect("text on stdin");
        let (key, value) = line.split_once('\t').expect("a tab in every line");
        take(key, value);
    }
}
