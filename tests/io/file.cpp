// SPDX-License-Identifier: Apache-2.0
#include <causeway/io/file.hpp>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cw = causeway;
namespace io = causeway::io;

namespace {

std::vector<std::string> watched_calls;
bool fail_sync = false;

}  // namespace

// The program's own definitions stand before the C library's, so the tests see the calls and can make a sync fail.
extern "C" int fsync(int fd) {
  struct stat info {};
  watched_calls.emplace_back(::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode) ? "sync folder" : "sync file");
  if (fail_sync) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  watched_calls.emplace_back("rename");
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}

TEST_CASE("mapped file: shows the file's bytes and survives its removal", "[io][fast]") {
  const cw::test::temporary_folder folder;
  const std::string path = folder.write("data", "0123456789");
  auto file = io::mapped_file::open(path);
  REQUIRE(file);
  std::filesystem::remove(path);
  io::mapped_file moved = std::move(*file);
  CHECK(file->bytes().empty());
  REQUIRE(moved.bytes().size() == 10);
  CHECK(static_cast<char>(moved.bytes()[9]) == '9');
}

TEST_CASE("mapped file: an empty file is empty, a missing one and a folder are errors that name the path", "[io][fast]") {
  const cw::test::temporary_folder folder;
  CHECK(io::mapped_file::open(folder.write("empty", "")).value().bytes().empty());
  const auto missing = io::mapped_file::open(folder / "missing");
  CHECK(missing.error().code == cw::errc::not_found);
  CHECK(missing.error().where == folder / "missing");
  CHECK(io::mapped_file::open(folder.path()).error().code == cw::errc::io_failed);
}

TEST_CASE("posix storage: a large file of many pieces comes back whole, without a temporary file left", "[io][fast]") {
  const cw::test::temporary_folder folder;
  std::vector<std::uint32_t> values(300'000);
  std::iota(values.begin(), values.end(), 0U);
  const auto bytes = std::as_bytes(std::span{values});
  io::posix_storage storage;
  REQUIRE(storage.write_atomic(folder / "large", [&](const io::byte_sink& sink) -> cw::result<void> {
    for (std::size_t at = 0; at < bytes.size(); at += 4099) {
      CAUSEWAY_TRY(sink(bytes.subspan(at, std::min<std::size_t>(4099, bytes.size() - at))));
    }
    return {};
  }));
  const auto back = storage.read(folder / "large").value();
  CHECK(std::equal(back.begin(), back.end(), bytes.begin(), bytes.end()));
  CHECK(storage.list(folder.path()).value() == std::vector<std::string>{"large"});
}

TEST_CASE("posix storage: a full disk is disk_full with a remedy", "[io][fast]") {
  auto full = io::detail::open_file("/dev/full", O_WRONLY);
  REQUIRE(full);
  const std::string text = "does not fit";
  const auto written = io::detail::write_all(*full, std::as_bytes(std::span{text}), "/dev/full");
  REQUIRE_FALSE(written);
  CHECK(written.error().code == cw::errc::disk_full);
  CHECK(written.error().message.find("Free some space") != std::string::npos);
}

TEST_CASE("posix storage: running out of space keeps the old file and leaves no other", "[io][fast]") {
  const cw::test::temporary_folder folder;
  io::posix_storage storage;
  REQUIRE(storage.write_atomic(folder / "state", io::produce("old")));

  // A limit on file size acts like a disk that fills up in the middle of the write. In a child, because it is for good.
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit limit{100'000, 100'000};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string large(1'000'000, 'x');
    const auto written = storage.write_atomic(folder / "state", io::produce(large));
    ::_exit(!written && written.error().code == cw::errc::disk_full ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(storage.read(folder / "state").value().size() == 3);
  CHECK(storage.list(folder.path()).value() == std::vector<std::string>{"state"});
}

TEST_CASE("posix storage: a process killed in the middle of a write leaves the old file", "[io][fast]") {
  const cw::test::temporary_folder folder;
  io::posix_storage storage;
  REQUIRE(storage.write_atomic(folder / "state", io::produce("old")));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    (void)storage.write_atomic(folder / "state", [](const io::byte_sink& sink) -> cw::result<void> {
      (void)io::produce("new, but")(sink);
      ::kill(::getpid(), SIGKILL);
      return {};
    });
    ::_exit(1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(storage.read(folder / "state").value().size() == 3);
}

TEST_CASE("posix storage: a target that cannot be replaced is an error and leaves no temporary file", "[io][fast]") {
  const cw::test::temporary_folder folder;
  folder.write("taken/inside", "x");
  io::posix_storage storage;
  const auto onto_a_folder = storage.write_atomic(folder / "taken", io::produce("y"));
  REQUIRE_FALSE(onto_a_folder);
  CHECK(onto_a_folder.error().code == cw::errc::io_failed);
  CHECK(storage.list(folder.path()).value().empty());
  const auto below_a_file = storage.write_atomic(folder / "taken/inside/z", io::produce("y"));
  CHECK_FALSE(below_a_file);
  CHECK(storage.list(folder / "taken").value() == std::vector<std::string>{"inside"});
}

TEST_CASE("posix storage: the file is synced, then renamed, then its folder is synced", "[io][fast]") {
  const cw::test::temporary_folder folder;
  io::posix_storage storage;
  REQUIRE(storage.write_atomic(folder / "state", io::produce("the first write also syncs the folders above")));
  watched_calls.clear();
  REQUIRE(storage.write_atomic(folder / "state", io::produce("x")));
  CHECK(watched_calls == std::vector<std::string>{"sync file", "rename", "sync folder"});
  watched_calls.clear();
  REQUIRE(storage.remove(folder / "state"));
  CHECK(watched_calls == std::vector<std::string>{"sync folder"});
}

TEST_CASE("posix storage: a failed fsync is an error; it is not tried again and the file never appears", "[io][fast]") {
  const cw::test::temporary_folder folder;
  io::posix_storage storage;
  REQUIRE(storage.write_atomic(folder / "state", io::produce("old")));
  watched_calls.clear();
  fail_sync = true;
  const auto written = storage.write_atomic(folder / "state", io::produce("newer"));
  fail_sync = false;
  REQUIRE_FALSE(written);
  CHECK(written.error().code == cw::errc::io_failed);
  CHECK(written.error().message.find("durable") != std::string::npos);
  CHECK(watched_calls == std::vector<std::string>{"sync file"});
  CHECK(storage.read(folder / "state").value().size() == 3);
  CHECK(storage.list(folder.path()).value() == std::vector<std::string>{"state"});
}

TEST_CASE("posix storage: folder of a path", "[io][fast]") {
  CHECK(io::detail::folder_of("a/b/c") == "a/b");
  CHECK(io::detail::folder_of("c") == ".");
  CHECK(io::detail::folder_of("/c") == "/");
}
