#include "agent/container/image_load.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

std::string Listed(const std::filesystem::path& folder, const std::string& tar) {
  std::ofstream(folder / "some.tar", std::ios::binary) << tar;
  const auto in = [&](const char* name) { return (folder / name).string(); };
  const std::string command =
      "tar --numeric-owner -tvf " + in("some.tar") + " >" + in("list") + " 2>&1";
  const int status = std::system(command.c_str());  // a file that ends early is listed, too
  EXPECT_NE(status, -1);
  std::ifstream list(folder / "list");
  return {std::istreambuf_iterator<char>(list), {}};
}

TEST(TarHeader, IsOneThatTarReads) {
  const TemporaryFolder temporary;
  const std::string list = Listed(
      temporary.path(), TarHeader("a", 5) + "five\n" + TarPadding(5) + TarHeader("b", 512) +
                            std::string(512, 'x') + TarPadding(512) + std::string(1024, '\0'));
  EXPECT_EQ(list,
            "-rw-r--r-- 0/0               5 1970-01-01 00:00 a\n"
            "-rw-r--r-- 0/0             512 1970-01-01 00:00 b\n");
}

// More than eleven octal digits can say.
TEST(TarHeader, OfALargeFileIsOneThatTarReads) {
  const TemporaryFolder temporary;
  EXPECT_NE(Listed(temporary.path(), TarHeader("large", 20'000'000'000)).find(" 20000000000 "),
            std::string::npos);
}

TEST(ManifestOf, NamesEachLayerAsOftenAsTheImageHasIt) {
  const ImageFiles files{{"c", "/c"}, {{"a", "/a"}, {"b", "/b"}, {"a", "/a"}}};
  const auto manifest = nlohmann::json::parse(ManifestOf("localhost/tfdist/train:1", files));
  EXPECT_EQ(manifest, nlohmann::json::parse(R"([{"Config": "c", "Layers": ["a", "b", "a"],
                                                 "RepoTags": ["localhost/tfdist/train:1"]}])"));
}

}  // namespace
}  // namespace tfdist::agent
