// `<base>/files/<sha256>`: files that jobs bring, kept by content and shared between jobs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/files/file_places.h"
#include "wire/file_fetch.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class FileReceiver;

// For the file thread alone. All functions throw Error(kFiles).
class FileStore {
 public:
  explicit FileStore(std::filesystem::path folder);
  ~FileStore();

  // Removes what no job has asked for in two weeks: each version of a workdir is a file of its own.
  // What jobs have in their folders stays there.
  void ForgetUnused() const;
  // Whether the file is here, whole: its content is hashed, as a cache may have been damaged.
  // Counts as use.
  [[nodiscard]] bool Has(const protocol::FileDescription& file) const;
  // Those that are here count as used; nobody looks at their content.
  void KeepUsed(const std::vector<std::string>& hashes) const;
  // What the next pieces are to be: without it nobody can make us store anything.
  void Expect(const protocol::FileDescription& file);
  // Pieces come in order. True: that was the last one, the file is here and is what it should be.
  // After an error the file's further pieces are passed over until it is expected anew.
  [[nodiscard]] bool Accept(const protocol::FilePiece& piece);
  // As Accept, for bytes that another host has sent.
  [[nodiscard]] bool AcceptContent(const std::string& sha256, uint64_t offset,
                                   std::string_view content);
  [[nodiscard]] bool IsExpected(const std::string& sha256) const {
    return expected_.contains(sha256);
  }
  // What is put elsewhere than in the folder keeps its time.
  [[nodiscard]] FilePlaces& places() { return places_; }
  [[nodiscard]] const FilePlaces& places() const { return places_; }
  // A file of the job: Part() may give it away.
  void Announce(const protocol::FileDescription& file) { announced_[file.sha256] = file; }
  // What another host of the job has asked for. From a file that is on its way here, too: who gets it
  // hashes it.
  [[nodiscard]] protocol::FilePart Part(const protocol::FileAsk& ask) const;
  // Puts the file at `path`: a hard link where that can be, else a copy.
  void Place(const protocol::FileDescription& file, const std::filesystem::path& path) const;
  [[nodiscard]] std::filesystem::path PathOf(const std::string& sha256) const {
    return places_.PathOf(sha256);
  }

 private:
  // `take` gives the receiver what has come, and says whether that was all of the file.
  template <typename Take>
  bool Receive(const std::string& sha256, uint64_t offset, Take take);

  std::filesystem::path folder_;
  FilePlaces places_;
  std::map<std::string, protocol::FileDescription> announced_;
  std::map<std::string, protocol::FileDescription> expected_;
  std::map<std::string, std::unique_ptr<FileReceiver>> receiving_;
  std::set<std::string> failed_;
};

// Appends the content of `from` to the open file `to`, whose name is for errors; blocks are shared
// where the file system can do that.
void CopyContent(const std::filesystem::path& from, int to, const std::string& name);

// Copies the content, with `mode` for the new file. An existing `to` is replaced.
void CopyFile(const std::filesystem::path& from, const std::filesystem::path& to, mode_t mode);

// A hard link, or a copy where the file system has none. An existing `to` is replaced.
void LinkOrCopy(const std::filesystem::path& from, const std::filesystem::path& to, mode_t mode);

// SHA-256 of a file's content. Throws Error(kFiles).
std::string HashFile(const std::filesystem::path& path);

}  // namespace tfdist::agent
