// What disk_layer.cc has recorded, and a disk that loses power in the middle of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace tfdist::runtime::testing {

struct DiskChange {
  char kind = 0;      // Create, Write, Sync, Rename, Unlink, Mkdir; Killed
  std::string path;   // of a rename: the old one
  std::string other;  // of a rename: the new one; of a kill: the kind of the call
  uint64_t offset = 0;
  std::string bytes;
};

std::vector<DiskChange> ReadDiskRecord(const std::filesystem::path& record);

// A file's bytes are safe once it is synced, a name in a folder once the folder is: what POSIX promises, and no more. So the
// name of a new file that was synced itself is not safe yet.
class UnsafeDisk {
 public:
  // `root` is there already.
  explicit UnsafeDisk(std::filesystem::path root) : root_(std::move(root)) {}

  void Apply(const DiskChange& change);
  // Makes what is there after a power cut: all that was synced. With `luck`, of what was not, each change of a folder and each
  // write with probability 1/2, and of such a write as often the first half alone.
  void Cut(const std::filesystem::path& to, std::mt19937* luck) const;

 private:
  struct Write {
    uint64_t offset = 0;
    std::string bytes;
  };
  struct Item {
    bool folder = false;
    std::string safe;           // bytes
    std::vector<Write> unsafe;  // since then
  };
  using Items = std::map<std::filesystem::path, std::shared_ptr<Item>>;
  // Of one folder: `gone` is no longer there, `name` is `item`; either may be missing.
  struct Entry {
    std::filesystem::path gone;
    std::filesystem::path name;
    std::shared_ptr<Item> item;
  };

  void Change(Entry entry);
  void Sync(const std::filesystem::path& path);
  static void Make(const Entry& entry, Items& items);

  std::filesystem::path root_;
  Items now_;                                                   // as programs see it
  Items safe_;                                                  // names that are synced
  std::map<std::filesystem::path, std::vector<Entry>> unsafe_;  // by folder, in order
};

}  // namespace tfdist::runtime::testing
