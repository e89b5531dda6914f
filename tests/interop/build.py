"""Build every client that can be built here, ahead of the tests, and print what is missing.

    PYTHONPATH=tests python -m interop.build

Test runs build what they need by themselves; a build beforehand leaves the processors to the tests.
"""

from interop.built import FLINK, GO, MIRROR_MAKER, NODE, RUST, SPARK, STREAMS_AND_CONNECT
from interop.programs import java_missing


def main() -> None:
    builds = {
        "Apache Kafka": java_missing,
        "Go": GO.missing,
        "Node": NODE.missing,
        "Rust": RUST.missing,
        "Spark's connector": SPARK.missing,
        "Kafka Streams and Connect": STREAMS_AND_CONNECT.missing,
        "MirrorMaker": MIRROR_MAKER.missing,
        "Flink": FLINK.missing,
    }
    for name, missing in builds.items():
        if reason := missing():
            print(f"{name}: {reason}")


if __name__ == "__main__":
    main()
