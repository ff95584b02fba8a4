// A folder of checkpoints, and the manifest that makes one of them whole:
//
//     DIR/ckpt-500/shard-00000-of-00002.safetensors   by each server, see shard_file.h
//     DIR/ckpt-500/manifest.json                      by the chief, last of all
//     DIR/progress                                    the newest step that the chief has seen
//
// DIR may be one folder that all hosts share, or one on each host's own disk: then each has its
// servers' shards, and the chief's host the manifests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/checkpoint/shard_file.h"

namespace tfdist::runtime {

struct Manifest {
  uint64_t number = 0;  // of the checkpoint: its name is "ckpt-NUMBER"
  uint64_t id = 0;
  uint64_t step = 0;               // the global one
  std::vector<ShardFacts> shards;  // in order; of a server of several threads one for each thread

  bool operator==(const Manifest&) const = default;
};

// "ckpt-500", "shard-00000-of-00002.safetensors".
std::string CheckpointName(uint64_t number);
std::string ShardName(size_t shard, size_t of);
// `folder` may be one of checkpoints, or be itself the checkpoint of that number.
std::filesystem::path CheckpointAt(const std::filesystem::path& folder, uint64_t number);

// Numbers of the checkpoints in a folder that have a manifest, the newest first. None where there is
// no such folder. Throws Error(kFiles).
std::vector<uint64_t> CheckpointsIn(const std::filesystem::path& folder);

// The newest checkpoint in a folder of them; the folder itself when it is one. Throws Error(kFiles)
// when there is none.
std::filesystem::path NewestIn(const std::filesystem::path& folder);

// The text of manifest.json, with a checksum of all but itself.
std::string EncodeManifest(const Manifest& manifest);
// nullopt unless `text` is, to the last bit, what EncodeManifest would write.
std::optional<Manifest> DecodeManifest(const std::string& text);

// Throws Error(kFiles) that names the file when it is damaged or missing.
Manifest ReadManifest(const std::filesystem::path& checkpoint);
// Makes the checkpoint whole: synced, and there at once or not at all. Throws Error(kFiles).
void WriteManifest(const std::filesystem::path& checkpoint, const Manifest& manifest);

// Makes the checkpoint's folder, for files that are to be new, and syncs the names of all folders that it
// has made. Throws Error(kFiles).
void MakeCheckpoint(const std::filesystem::path& checkpoint);
// From here on it is no checkpoint any more, whatever is in it. Throws Error(kFiles).
void RemoveManifest(const std::filesystem::path& checkpoint);
// Removes the files of checkpoints before `number` that are not to be kept: manifests first, then
// shards. Files of others stay. What cannot be removed is left, and tried again with the next one.
void RemoveOthersBefore(const std::filesystem::path& folder, uint64_t number,
                        const std::vector<uint64_t>& kept);

// The newest step that a chief has written there; nullopt when there is none that can be read.
std::optional<uint64_t> ReadProgress(const std::filesystem::path& folder);
// Not synced: it is for a message. What cannot be written is left out.
void WriteProgress(const std::filesystem::path& folder, uint64_t step);

}  // namespace tfdist::runtime
