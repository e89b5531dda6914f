"""The directory of a history: tables of Parquet files, the states of the fold, and snapshots.

    OUT/_history.json            the format's version; marks the directory
    OUT/_lock                    locked by the one build that writes
    OUT/_batches/<id>.json       a snapshot: names all files of the history
    OUT/<table>/….parquet        rows; the name has log partition, offsets and attempt
    OUT/state/<log partition>/<end offset>-<attempt>.arrow

A batch writes new files under names that no other attempt has. Then the next snapshot names them,
beside those of the snapshots before, and is renamed into place. Readers read the newest snapshot
and no other file. So a batch is visible as a whole or not at all, whatever ends its build. Files
that no snapshot names are removed by the next build.

- `file_system`: operations on local files, or on those of an object store.
- `snapshot`: the content of a snapshot.
- `directory`: opens, locks, reads and changes a directory.
- `table_files`: writes the rows of tables. `folding` is the work of a task: reads, folds, writes.
- `merging`: replaces small files by larger ones, and removes old rows.
- `samples`: ends of topics, which no log partition has. `status`, `all_lags`: of groups, by these;
  `parts` are the log partitions that they read at once.
- `moments`: what the tables were at a time. `reading` reads them without Spark.
- `certainty`: what is certain of offsets at a time. `offsets_at` has those of a group.
- `group_history`: whole groups, one after the other; `group_processes`: in several processes.

No Spark here; pyarrow is required.
"""
