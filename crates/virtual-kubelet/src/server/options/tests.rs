// SPDX-License-Identifier: Apache-2.0
//! Queries as clients write them, and as nobody should.

use proptest::prelude::*;

use super::*;

fn undecodable(query: &str) -> bool {
    matches!(LogOptions::read(query), Err(QueryError::Undecodable(_)))
}

fn invalid(query: &str) -> bool {
    matches!(LogOptions::read(query), Err(QueryError::Invalid(_)))
}

#[test]
fn no_options_are_the_defaults() {
    assert_eq!(LogOptions::read(""), Ok(LogOptions::default()));
}

#[test]
fn every_option_of_a_log_is_read() {
    let query = "follow=true&previous=1&timestamps&sinceSeconds=5&tailLines=0&limitBytes=10&stream=All&unknown=x";
    let expected = LogOptions {
        follow: true,
        previous: true,
        timestamps: true,
        since: Some(Since::Seconds(5)),
        tail_lines: Some(0),
        limit_bytes: Some(10),
        stream: LogStream::All,
    };
    assert_eq!(LogOptions::read(query), Ok(expected));
    let since = LogOptions::read("sinceTime=2026-01-02T03%3A04%3A05%2B01%3A00&stream=Stderr").unwrap();
    assert_eq!(since.since, Some(Since::Time(Timestamp::new(1_767_319_445, 0).unwrap())));
    assert_eq!(since.stream, LogStream::Stderr);
}

#[test]
fn booleans_are_read_as_the_api_reads_them() {
    for (query, expected) in
        [("follow=0", false), ("follow=False", false), ("follow", true), ("follow=", true), ("follow=no", true)]
    {
        assert_eq!(LogOptions::read(query).unwrap().follow, expected, "{query}");
    }
}

#[test]
fn the_old_spelling_of_tail_lines_wins() {
    assert_eq!(LogOptions::read("tail=3&tailLines=9").unwrap().tail_lines, Some(3));
    assert_eq!(LogOptions::read("tail=all&tailLines=9").unwrap().tail_lines, None);
    assert_eq!(LogOptions::read("tail=&tailLines=9").unwrap().tail_lines, Some(9));
    assert!(undecodable("tail=x"));
}

#[test]
fn what_cannot_be_read_is_told_from_what_makes_no_sense() {
    for query in ["tailLines=x", "tailLines=", "limitBytes=1.5", "sinceSeconds=9223372036854775808", "sinceTime=noon"] {
        assert!(undecodable(query), "{query}");
    }
    for query in [
        "tailLines=-1",
        "limitBytes=0",
        "sinceSeconds=0",
        "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
        "stream=stdout",
        "stream=",
        "stream=Stdout&tailLines=1",
    ] {
        assert!(invalid(query), "{query}");
    }
    assert!(undecodable("tailLines=-1&limitBytes=x"), "what cannot be read comes first");
}

#[test]
fn streams_are_those_that_say_one() {
    assert_eq!(
        Streams::read("input=1&output=1&error=1"),
        Ok(Streams { stdin: true, stdout: true, stderr: true, tty: false })
    );
    assert_eq!(
        Streams::read("output=1&error=1&tty=1"),
        Ok(Streams { stdin: false, stdout: true, stderr: false, tty: true }),
        "a terminal has one output"
    );
    for nothing in ["", "stdin=1", "input=true", "error=1&tty=1", "tty=1"] {
        assert!(Streams::read(nothing).is_err(), "{nothing}");
    }
}

#[test]
fn a_command_keeps_its_words() {
    assert_eq!(command("command=sh&output=1&command=-c&command=echo+a%26b%20c"), ["sh", "-c", "echo a&b c"]);
}

#[test]
fn ports_are_between_one_and_65535() {
    assert_eq!(ports("port=80&port=443,8080"), Ok(vec![80, 443, 8080]));
    assert_eq!(ports(""), Ok(vec![]));
    for query in ["port=0", "port=65536", "port=", "port=http", "port=-1", "port=80,"] {
        assert!(ports(query).is_err(), "{query}");
    }
}

proptest! {
    #[test]
    fn arbitrary_queries_never_panic(query in ".{0,200}") {
        drop((LogOptions::read(&query), Streams::read(&query), command(&query), ports(&query)));
    }

    #[test]
    fn queries_of_known_keys_never_panic(
        pairs in prop::collection::vec(
            (
                prop::sample::select(vec!["follow", "tail", "tailLines", "limitBytes", "sinceSeconds", "sinceTime", "stream", "port"]),
                "[-+0-9a-zA-Z:.,%]{0,24}",
            ),
            0..6,
        ),
    ) {
        let query: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if let Ok(options) = LogOptions::read(&query.join("&")) {
            prop_assert!(options.limit_bytes != Some(0));
            prop_assert!(options.tail_lines.is_none() || options.stream == LogStream::All);
        }
        drop(ports(&query.join("&")));
    }
}

#[test]
fn a_summary_is_brief_only_when_the_query_says_so_once() {
    for (query, brief) in [
        ("only_cpu_and_memory=true", true),
        ("x=1&only_cpu_and_memory=true", true),
        ("", false),
        ("only_cpu_and_memory", false),
        ("only_cpu_and_memory=1", false),
        ("only_cpu_and_memory=true&only_cpu_and_memory=true", false),
    ] {
        assert_eq!(only_cpu_and_memory(query), brief, "{query}");
    }
}

#[test]
fn a_command_of_a_run_is_split_at_its_spaces() {
    assert_eq!(run("cmd=ls%20-l"), Ok(vec!["ls".to_owned(), "-l".to_owned()]));
    assert_eq!(run("cmd=id&cmd=other"), Ok(vec!["id".to_owned()]));
    for nothing in ["", "cmd", "cmd=", "command=id"] {
        assert_eq!(run(nothing), Err(QueryError::Undecodable("you must specify a cmd".to_owned())), "{nothing}");
    }
}
