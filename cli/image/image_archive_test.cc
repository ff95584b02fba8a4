// Archives as docker, podman and OCI tools write them, packed by tar(1).
#include "cli/image/image_archive.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/testing/temporary_folder.h"
#include "cli/image/find_images.h"
#include "cli/image/tar_file.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ImageArchiveTest : public testing::Test {
 protected:
  void Put(const std::string& path, const std::string& content) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path, std::ios::binary) << content;
  }
  static std::string Config(const std::string& note) {
    return fmt::format(
        R"({{"architecture":"amd64","note":"{}","rootfs":{{"diff_ids":["sha256:{}","sha256:{}"]}}}})",
        note, Sha256Hex("base"), Sha256Hex("top"));
  }
  // At "blobs/sha256/..."; returns its descriptor, with `more` in it.
  std::string PutBlob(const std::string& content, const std::string& more = "") const {
    Put("blobs/sha256/" + Sha256Hex(content), content);
    return fmt::format(R"({{"digest":"sha256:{}"{}}})", Sha256Hex(content), more);
  }
  std::string PutOci(const std::string& note) const {
    const std::string config = PutBlob(Config(note));
    return fmt::format(R"({{"config":{},"layers":[{},{}]}})", config, PutBlob("packed base"),
                       PutBlob("packed top"));
  }
  void PutDocker(const std::string& tags) const {
    Put("c.json", Config("docker"));
    Put("a/layer.tar", "base");
    Put("b/layer.tar", "top");
    Put("manifest.json",
        fmt::format(
            R"([{{"Config":"c.json","RepoTags":{},"Layers":["a/layer.tar","b/layer.tar"]}}])",
            tags));
  }
  ArchivedImage Read(const std::string& options = "", const std::string& wanted = "") const {
    const fs::path file = temporary_.path() / "image.tar";
    const std::string command =
        fmt::format("tar {} -cf {} -C {} .", options, file.string(), folder_.string());
    EXPECT_EQ(std::system(command.c_str()), 0);
    const UniqueFd fd = OpenFile(file, O_RDONLY);
    return ReadImageArchive(fd.get(), "image.tar", wanted);
  }
  std::string WhyNot(const std::string& wanted = "") const try {
    Read("", wanted);
    return "it is one";
  } catch (const Error& error) {
    return error.cause();
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path() / "in";
};

TEST_F(ImageArchiveTest, OfDockerHasItsLayersByTheIdsInTheConfiguration) {
  PutDocker(R"(["train:3","train:latest"])");
  for (const char* options : {"", "--format=ustar", "--format=pax", "-z"}) {
    const ArchivedImage image = Read(options);
    EXPECT_EQ(image.name, "train:3");
    EXPECT_EQ(image.architecture, "amd64");
    EXPECT_EQ(image.config.sha256, Sha256Hex(Config("docker")));
    ASSERT_EQ(image.layers.size(), 2U);
    EXPECT_EQ(image.layers[1].sha256, Sha256Hex("top"));
    EXPECT_EQ(image.layers[1].size_bytes, 3U);
    EXPECT_EQ(image.is_compressed, options == std::string("-z"));
  }
  EXPECT_EQ(Read("", "train").name, "train");
  EXPECT_THAT(WhyNot("other"), HasSubstr("holds no image other; it holds train:3"));
}

TEST_F(ImageArchiveTest, SaysWhereALayerLies) {
  PutDocker("null");
  const ArchivedImage image = Read();
  EXPECT_EQ(image.name, "");
  std::ifstream file(temporary_.path() / "image.tar", std::ios::binary);
  file.seekg(static_cast<std::streamoff>(image.layers[0].offset));
  std::string content(image.layers[0].size_bytes, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  EXPECT_EQ(content, "base");
}

// docker writes equal layers so.
TEST_F(ImageArchiveTest, FollowsLinksAndLongNames) {
  PutDocker(R"(["train:3"])");
  const std::string folder(120, 'd');
  Put(folder + "/" + std::string(90, 'f'), "base");
  fs::remove(folder_ / "a/layer.tar");
  fs::create_symlink("../" + folder + "/" + std::string(90, 'f'), folder_ / "a/layer.tar");
  for (const char* options : {"--format=gnu", "--format=pax"}) {
    EXPECT_EQ(Read(options).layers[0].size_bytes, 4U);
  }
  fs::remove(folder_ / "a/layer.tar");
  fs::create_symlink("layer.tar", folder_ / "a/layer.tar");
  EXPECT_THAT(WhyNot(), HasSubstr("its a/layer.tar is missing"));
}

TEST_F(ImageArchiveTest, OfOciHasItsLayersAsTheyArePacked) {
  const std::string image = PutBlob(PutOci("oci"), R"(,"platform":{"architecture":"amd64"})");
  const std::string note = PutBlob("{}", R"(,"platform":{"architecture":"unknown"})");
  const std::string index =
      PutBlob(fmt::format(R"({{"manifests":[{},{}]}})", image, note),
              R"(,"annotations":{"io.containerd.image.name":"r.lan/train:3"})");
  Put("index.json", fmt::format(R"({{"manifests":[{}]}})", index));
  const ArchivedImage found = Read();
  EXPECT_EQ(found.name, "r.lan/train:3");
  EXPECT_EQ(found.config.sha256, Sha256Hex(Config("oci")));
  EXPECT_EQ(found.layers[0].sha256, Sha256Hex("packed base"));
  EXPECT_EQ(found.layer_ids[0], Sha256Hex("base"));
}

TEST_F(ImageArchiveTest, OfSeveralImagesNamesThem) {
  const std::string one =
      PutBlob(PutOci("one"), R"(,"annotations":{"org.opencontainers.image.ref.name":"one"})");
  const std::string two = PutBlob(PutOci("two"));
  Put("index.json", fmt::format(R"({{"manifests":[{},{}]}})", one, two));
  EXPECT_THAT(WhyNot(), HasSubstr("it holds 2 images: one, one without a name"));
  EXPECT_EQ(Read("", "one").config.sha256, Sha256Hex(Config("one")));
}

TEST_F(ImageArchiveTest, ThatIsDamagedIsAnErrorThatSaysSo) {
  Put("file", "some");
  EXPECT_THAT(WhyNot(), HasSubstr("neither manifest.json nor index.json"));
  Put("manifest.json", R"([{"Config":"c.json","Layers":[]}])");
  EXPECT_THAT(WhyNot(), HasSubstr("its c.json is missing"));
  Put("c.json", R"({"architecture":"amd64","rootfs":{"diff_ids":["sha256:12"]}})");
  EXPECT_THAT(WhyNot(), HasSubstr("a SHA-256 is none"));
  Put("c.json", R"({"architecture":7})");
  EXPECT_THAT(WhyNot(), HasSubstr("what it says of its image is damaged"));
  PutDocker("null");
  Put("manifest.json", R"([{"Config":"c.json","Layers":["a/layer.tar"]}])");
  EXPECT_THAT(WhyNot(), HasSubstr("it has 1 layers, and the image's configuration 2"));
  Put("manifest.json", "[]");
  EXPECT_THAT(WhyNot(), HasSubstr("it holds no image"));
}

TEST(ReferenceFor, IsMadeOfTheNameAndTheId) {
  const std::string key(64, 'a');
  EXPECT_EQ(ReferenceFor("train:3", key), "localhost/tfdist/train:aaaaaaaaaaaa");
  EXPECT_EQ(ReferenceFor("r.lan:5000/team/My__Net@sha256:0", key),
            "localhost/tfdist/my-net:aaaaaaaaaaaa");
  EXPECT_EQ(ReferenceFor("__", key), "localhost/tfdist/image:aaaaaaaaaaaa");
}

}  // namespace
}  // namespace tfdist::cli
