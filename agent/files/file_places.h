// Where files lie by their content. A copy of it may go to another thread.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace tfdist::agent {

class FilePlaces {
 public:
  // What nobody has put elsewhere comes into `folder`, under its hash.
  explicit FilePlaces(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // This content comes to `first`; once that is gone, it is at `then`.
  void Put(const std::string& sha256, std::filesystem::path first, std::filesystem::path then) {
    elsewhere_[sha256] = {std::move(first), std::move(then)};
  }
  [[nodiscard]] bool IsElsewhere(const std::string& sha256) const {
    return elsewhere_.contains(sha256);
  }
  // Where it comes to. Throws Error(kFiles) for what is no SHA-256.
  [[nodiscard]] std::filesystem::path Target(const std::string& sha256) const;
  // Where it is, if it is here. Throws as Target.
  [[nodiscard]] std::filesystem::path PathOf(const std::string& sha256) const;

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::pair<std::filesystem::path, std::filesystem::path>> elsewhere_;
};

// Whether `text` is 64 lower-case hexadecimal digits: it becomes a file name.
bool IsSha256(std::string_view text);

}  // namespace tfdist::agent
