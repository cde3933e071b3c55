//! What a developer runs: `cargo xtask test`, `tidy`, `console` and others. Ships nothing.
//!
//! This file reads the command line; each command has a file of its own.

mod bench;
mod codegen;
mod codegen_schemas;
mod console;
mod deb;
mod dist;
mod krew;
mod kubectl;
mod lints;
mod packages;
mod peers;
mod quick;
mod recording;
mod sbom;
mod sim;
mod test;
mod tidy;
mod wheel;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
cargo xtask COMMAND

  test [--full] [--times] [--fuzz SECONDS] [FILTER]
                          All that a change must pass: formatting, lints, tidy and the tests.
                          Installs the Debian packages that the tests use (as root), builds kubectl
                          if there is none, installs client libraries below target, builds an
                          operator in Go (from PyPI if there is none), and starts private servers.
                          --full runs the long tests too; FILTER picks tests by a part of their
                          name; --fuzz is how long each reader of bodies is given inputs made by
                          chance, 20 seconds if it is not said; --times lists the slowest tests.
  test --quick            Formatting, tidy, lints, and the unit and contract tests of the crates
                          that changed since the upstream branch, and of those that use them.
  peers [--program FILE] [NAME]...
                          Tests against large peers, such as PyTorch. Builds or installs each peer
                          once per version into a cache (SETPOINT_PEERS, or target/peers). A peer
                          that cannot be had is a failure. `peers --list` names them. --program
                          tests a program that was built before, instead of a release build.
  tidy [--bless]          The rules of ARCHITECTURE.md and STYLE.md that a program can check.
                          --bless lowers the ratchet to what the code needs.
  bench NAME [ARGS]       Runs a benchmark, in release mode: store, apply, cluster, node, training,
                          inference, machines, history; or api, which starts a server or
                          measures that of `--kubeconfig FILE`.
  soak [--minutes N]      Mixed load and faults on one control plane, 60 minutes by default, in
                          release mode. Fails if memory, file descriptors or disk space grow, or
                          if an acknowledged write is lost.
  sim [--scenario NAME] [--seed N] [--defects]
                          Runs every controller under every fault that its own trace offers, and
                          prints what the oracles found with the line that replays it. --defects
                          plants one defect after the other and expects each to be found.
  codegen --facts DIR     Writes the API server's tables of built-in kinds and types from the
                          files kinds.json and types.json in DIR.
  sbom [FILE]             Lists everything that is linked into the program, as CycloneDX JSON.
  deb DIST FILE           Makes a Debian package of the directory that a release packs.
  wheel DIST DIR          Makes a wheel of the program in it, for pip.
  dist [--profile NAME] [--signing-key FILE] [--releases URL] [--program FILE] [DIR]
                          Builds every file of a release for this machine: archive, Debian package,
                          wheel, container image, install.sh, and their signed checksums. --program
                          packs a program that was built before, to try the packaging.
  recording FILE [PROGRAM]
                          Runs the demo and writes it as an animated SVG.
  sign DIR FILE           Signs the checksums of the release files in DIR with the key in FILE.
  krew TAG URL FILE...    Prints the manifest by which Krew installs the archives of a release,
                          from their checksums.
  console                 Builds the web console with npm into console/dist, which is committed.
  help                    This text.
";

#[derive(Debug, PartialEq, Eq)]
enum Command {
    Test(test::Options),
    Quick,
    Peers(peers::Choice),
    Tidy(tidy::Ratchet),
    Bench(Vec<String>),
    Sim(sim::Options),
    Codegen(PathBuf),
    Sbom(Option<PathBuf>),
    Deb { packed: PathBuf, file: PathBuf },
    Wheel { packed: PathBuf, directory: PathBuf },
    Krew(krew::Release),
    Dist(dist::Options),
    Sign { directory: PathBuf, key: PathBuf },
    Recording { file: PathBuf, program: Option<PathBuf> },
    Console,
    Help,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Test(options) => test::run(&options),
        Command::Quick => quick::run(),
        Command::Peers(choice) => peers::run(&choice),
        Command::Tidy(ratchet) => tidy::run(ratchet),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Sim(options) => sim::run(&options),
        Command::Codegen(facts) => codegen::run(&facts),
        Command::Sbom(file) => sbom::run(file.as_deref()),
        Command::Deb { packed, file } => deb::run(&packed, &file),
        Command::Wheel { packed, directory } => wheel::run(&packed, &directory),
        Command::Krew(release) => krew::run(&release),
        Command::Dist(options) => dist::run(&options),
        Command::Sign { directory, key } => dist::sign(&directory, &key),
        Command::Recording { file, program } => recording::run(&file, program.as_deref()),
        Command::Console => console::run(),
        Command::Help => {
            print!("{HELP}");
            Ok(())
        }
    }
}

fn parse(arguments: &[String]) -> Result<Command> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Ok(match words.as_slice() {
        [] | ["help" | "--help" | "-h", ..] => Command::Help,
        ["test", "--quick"] => Command::Quick,
        ["test", rest @ ..] => Command::Test(parse_test(rest)?),
        ["peers", rest @ ..] => Command::Peers(parse_peers(rest)?),
        ["tidy"] => Command::Tidy(tidy::Ratchet::Check),
        ["tidy", "--bless"] => Command::Tidy(tidy::Ratchet::Bless),
        ["bench", name, ..] if !name.starts_with('-') => Command::Bench(arguments[1..].to_vec()),
        ["soak", ..] => Command::Bench(arguments.to_vec()),
        ["bench", ..] => bail!("`bench` needs the name of a benchmark; see `cargo xtask help`"),
        ["sim", rest @ ..] => Command::Sim(parse_sim(rest)?),
        ["codegen", "--facts", facts] => Command::Codegen(PathBuf::from(facts)),
        ["sbom"] => Command::Sbom(None),
        ["sbom", file] if !file.starts_with('-') => Command::Sbom(Some(PathBuf::from(file))),
        ["codegen", ..] => bail!("`codegen` needs `--facts DIR`"),
        ["deb", packed, file] => {
            Command::Deb { packed: PathBuf::from(packed), file: PathBuf::from(file) }
        }
        ["wheel", packed, directory] => {
            Command::Wheel { packed: PathBuf::from(packed), directory: PathBuf::from(directory) }
        }
        ["krew", tag, url, files @ ..] if !files.is_empty() => Command::Krew(krew::Release {
            tag: (*tag).to_owned(),
            url: (*url).to_owned(),
            checksums: files.iter().map(PathBuf::from).collect(),
        }),
        ["dist", rest @ ..] => Command::Dist(parse_dist(rest)?),
        ["recording", file] => Command::Recording { file: PathBuf::from(file), program: None },
        ["recording", file, program] => {
            Command::Recording { file: PathBuf::from(file), program: Some(PathBuf::from(program)) }
        }
        ["sign", directory, key] => {
            Command::Sign { directory: PathBuf::from(directory), key: PathBuf::from(key) }
        }
        ["console"] => Command::Console,
        _ => bail!("`{}` is not a command; see `cargo xtask help`", words.join(" ")),
    })
}

fn parse_test(words: &[&str]) -> Result<test::Options> {
    let mut options = test::Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--full" => options.scope = test::Scope::Full,
            "--times" => options.with_times = true,
            "--fuzz" => match words.next().map(|seconds| seconds.parse()) {
                Some(Ok(seconds)) => options.fuzz_seconds = Some(seconds),
                _ => bail!("`--fuzz` needs a number of seconds"),
            },
            flag if flag.starts_with('-') => bail!("`test` has no option `{flag}`"),
            filter if options.filter.is_none() => options.filter = Some(filter.to_owned()),
            extra => bail!("`test` takes one filter; `{extra}` is one too many"),
        }
    }
    Ok(options)
}

fn parse_peers(words: &[&str]) -> Result<peers::Choice> {
    if words == ["--list"] {
        return Ok(peers::Choice::List);
    }
    let mut selection = peers::Selection::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--program" => match words.next() {
                Some(program) => selection.program = Some(PathBuf::from(program)),
                None => bail!("`--program` needs a file"),
            },
            option if option.starts_with('-') => bail!("`peers` has no option `{option}`"),
            name => selection.names.push(name.to_owned()),
        }
    }
    Ok(peers::Choice::Run(selection))
}

fn parse_dist(words: &[&str]) -> Result<dist::Options> {
    let mut options = dist::Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || match words.next() {
            Some(value) => Ok((*value).to_owned()),
            None => bail!("`{word}` needs a value"),
        };
        match *word {
            "--profile" => options.profile = value()?,
            "--signing-key" => options.signing_key = Some(PathBuf::from(value()?)),
            "--releases" => options.releases = value()?,
            "--program" => options.program = Some(PathBuf::from(value()?)),
            option if option.starts_with('-') => bail!("`dist` has no option `{option}`"),
            directory => options.directory = Some(PathBuf::from(directory)),
        }
    }
    Ok(options)
}

fn parse_sim(words: &[&str]) -> Result<sim::Options> {
    let mut options = sim::Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--scenario" => match words.next() {
                Some(name) => options.scenario = Some((*name).to_owned()),
                None => bail!("`--scenario` needs the name of a trial"),
            },
            "--seed" => match words.next().map(|seed| seed.parse()) {
                Some(Ok(seed)) => options.seed = Some(seed),
                _ => bail!("`--seed` needs a number"),
            },
            "--defects" => options.with_defects = true,
            word => bail!("`sim` has no option `{word}`"),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn commands_are_read_with_their_options() {
        let test = |scope, filter: Option<&str>| {
            let filter = filter.map(str::to_owned);
            Command::Test(test::Options { scope, filter, ..test::Options::default() })
        };
        let cases = [
            ("", Command::Help),
            ("help", Command::Help),
            ("test", test(test::Scope::Usual, None)),
            ("test watch --full", test(test::Scope::Full, Some("watch"))),
            ("test --fuzz 60", {
                let fuzz_seconds = Some(60);
                Command::Test(test::Options { fuzz_seconds, ..test::Options::default() })
            }),
            ("sim --scenario a --seed 7", {
                let (scenario, seed) = (Some("a".to_owned()), Some(7));
                Command::Sim(sim::Options { scenario, seed, with_defects: false })
            }),
            ("sbom", Command::Sbom(None)),
            ("sbom a.json", Command::Sbom(Some(PathBuf::from("a.json")))),
            ("deb a b.deb", Command::Deb { packed: "a".into(), file: "b.deb".into() }),
            ("wheel a b", Command::Wheel { packed: "a".into(), directory: "b".into() }),
            ("krew v1 u a", {
                let (tag, url) = ("v1".to_owned(), "u".to_owned());
                Command::Krew(krew::Release { tag, url, checksums: vec!["a".into()] })
            }),
            ("test --quick", Command::Quick),
            ("peers", Command::Peers(peers::Choice::Run(peers::Selection::default()))),
            ("peers training --program a", {
                let (names, program) = (vec!["training".to_owned()], Some("a".into()));
                Command::Peers(peers::Choice::Run(peers::Selection { names, program }))
            }),
            ("dist --profile release out", {
                let (profile, directory) = ("release".to_owned(), Some("out".into()));
                Command::Dist(dist::Options { profile, directory, ..dist::Options::default() })
            }),
            ("recording a.svg", Command::Recording { file: "a.svg".into(), program: None }),
            ("sign a key.pem", Command::Sign { directory: "a".into(), key: "key.pem".into() }),
            ("tidy", Command::Tidy(tidy::Ratchet::Check)),
            ("tidy --bless", Command::Tidy(tidy::Ratchet::Bless)),
            ("codegen --facts a/b", Command::Codegen(PathBuf::from("a/b"))),
            ("bench store --writers 4", {
                Command::Bench(["store", "--writers", "4"].map(str::to_owned).to_vec())
            }),
        ];
        for (line, expected) in cases {
            assert_eq!(parse_line(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for line in [
            "tset",
            "test --fast",
            "test --fuzz long",
            "test a b",
            "tidy --fix",
            "sim --seed x",
            "sim web",
            "bench",
            "bench --list",
            "deb a",
            "wheel a",
            "krew v1 u",
            "codegen",
            "peers --all",
            "peers --program",
            "dist --profile",
            "sign a",
        ] {
            assert!(parse_line(line).is_err(), "{line}");
        }
    }
}
