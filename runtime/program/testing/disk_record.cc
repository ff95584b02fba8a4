#include "runtime/program/testing/disk_record.h"

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace tfdist::runtime::testing {
namespace {

namespace fs = std::filesystem;

void Put(std::string& content, uint64_t offset, std::string_view bytes) {
  content.resize(std::max<size_t>(content.size(), offset + bytes.size()));
  content.replace(offset, bytes.size(), bytes);
}

bool Toss(std::mt19937* luck) { return luck != nullptr && (*luck)() % 2 == 0; }

}  // namespace

std::vector<DiskChange> ReadDiskRecord(const fs::path& record) {
  std::ifstream file(record, std::ios::binary);
  std::vector<DiskChange> changes;
  DiskChange change;
  size_t size = 0;
  while (file >> change.kind >> change.path >> change.other >> change.offset >> size) {
    file.get();  // the end of the line
    change.bytes.resize(size);
    file.read(change.bytes.data(), static_cast<std::streamsize>(size));
    changes.push_back(change);
  }
  return changes;
}

void UnsafeDisk::Apply(const DiskChange& change) {
  const fs::path path = change.path;
  switch (change.kind) {
    case 'C':
      if (!now_.contains(path)) Change({{}, path, std::make_shared<Item>()});
      return;
    case 'M':
      if (!now_.contains(path)) Change({{}, path, std::make_shared<Item>(Item{true, {}, {}})});
      return;
    case 'U':
      return Change({path, {}, {}});
    case 'R':
      return Change({path, change.other, now_.at(path)});
    case 'W':
      now_.at(path)->unsafe.push_back({change.offset, change.bytes});
      return;
    case 'S':
      return Sync(path);
    case 'K':
      return;
    default:
      throw std::runtime_error("not a record of a disk");
  }
}

void UnsafeDisk::Make(const Entry& entry, Items& items) {
  if (!entry.gone.empty()) items.erase(entry.gone);
  if (!entry.name.empty()) items[entry.name] = entry.item;
}

void UnsafeDisk::Change(Entry entry) {
  Make(entry, now_);
  const fs::path& name = entry.name.empty() ? entry.gone : entry.name;
  unsafe_[name.parent_path()].push_back(std::move(entry));
}

void UnsafeDisk::Sync(const fs::path& path) {
  const auto found = now_.find(path);
  if (path == root_ || (found != now_.end() && found->second->folder)) {
    for (const Entry& entry : unsafe_[path]) Make(entry, safe_);
    unsafe_[path].clear();
  } else if (found != now_.end()) {
    for (const Write& write : std::exchange(found->second->unsafe, {})) {
      Put(found->second->safe, write.offset, write.bytes);
    }
  }
}

void UnsafeDisk::Cut(const fs::path& to, std::mt19937* luck) const {
  Items items = safe_;
  for (const auto& [folder, entries] : unsafe_) {
    for (const Entry& entry : entries) {
      if (Toss(luck)) Make(entry, items);
    }
  }
  for (const auto& [path, item] : items) {  // a folder before what is in it
    const fs::path place = to / path.lexically_relative(root_);
    if (!fs::exists(place.parent_path())) continue;  // its folder is lost, and it with it
    if (item->folder) {
      fs::create_directory(place);
      continue;
    }
    std::string content = item->safe;
    for (const Write& write : item->unsafe) {
      const std::string_view bytes = write.bytes;
      if (Toss(luck))
        Put(content, write.offset, bytes.substr(0, bytes.size() / (Toss(luck) ? 1 : 2)));
    }
    std::ofstream(place, std::ios::binary) << content;
  }
}

}  // namespace tfdist::runtime::testing
