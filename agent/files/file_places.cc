#include "agent/files/file_places.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"

namespace tfdist::agent {

bool IsSha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::filesystem::path FilePlaces::Target(const std::string& sha256) const {
  if (!IsSha256(sha256)) throw Error(Phase::kFiles, "a file's name is not a SHA-256");
  const auto place = elsewhere_.find(sha256);
  return place == elsewhere_.end() ? folder_ / sha256 : place->second.first;
}

std::filesystem::path FilePlaces::PathOf(const std::string& sha256) const {
  const auto target = Target(sha256);
  const auto place = elsewhere_.find(sha256);
  std::error_code error;
  const bool moved = place != elsewhere_.end() && !std::filesystem::exists(target, error);
  return moved ? place->second.second : target;
}

}  // namespace tfdist::agent
