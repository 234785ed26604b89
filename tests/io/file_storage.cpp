// SPDX-License-Identifier: Apache-2.0
#include <causeway/io/file_storage.hpp>

#include <causeway/io/storage.hpp>

#include "support/catch.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cw = causeway;
namespace io = causeway::io;

namespace {

// What a file system was asked to do, in order; and which of the calls fails.
struct record {
  std::vector<std::string> calls;
  std::string failing;
  std::set<std::string> folders{"/", "."};
  std::set<std::string> closed;
};

// Does nothing, and writes down what it was asked for.
class recording_files {
 public:
  struct file_type {
    std::string path;
  };

  explicit recording_files(record& to) : to_{&to} {}

  cw::result<file_type> create(const std::string& path) {
    CAUSEWAY_TRY(note("create " + path));
    return file_type{path};
  }
  cw::result<void> write(file_type& file, std::span<const std::byte>) { return note("write " + file.path); }
  cw::result<void> sync(file_type& file) { return note("sync " + file.path); }
  cw::result<void> close(file_type& file) { return note("close " + file.path); }
  cw::result<void> rename(const std::string& from, const std::string& to) { return note("rename " + from + " " + to); }
  cw::result<void> unlink(const std::string& path) { return note("unlink " + path); }
  cw::result<void> sync_folder(const std::string& path) { return note("sync folder " + path); }
  io::folder_state look(const std::string& path) {
    if (to_->closed.contains(path)) return io::folder_state::closed;
    return to_->folders.contains(path) ? io::folder_state::present : io::folder_state::missing;
  }
  cw::result<void> make_folder(const std::string& path) {
    to_->folders.insert(path);
    return note("make folder " + path);
  }
  cw::result<void> remove_folder(const std::string& path) {
    to_->folders.erase(path);
    return note("remove folder " + path);
  }
  cw::result<std::vector<std::string>> list(const std::string&) { return std::vector<std::string>{}; }
  cw::result<io::byte_vector> read(const std::string&) { return io::byte_vector{}; }
  [[nodiscard]] std::uint64_t process_id() const { return 7; }

 private:
  cw::result<void> note(const std::string& call) {
    to_->calls.push_back(call);
    if (call == to_->failing) return io::os_error(call, "do it", EIO);
    return {};
  }

  record* to_;
};

static_assert(io::FileSystem<recording_files>);
static_assert(io::Storage<io::basic_file_storage<recording_files>>);

using calls = std::vector<std::string>;

}  // namespace

TEST_CASE("file storage: written, synced, closed, renamed, and then the folder synced", "[io][fast]") {
  record seen;
  io::basic_file_storage storage{recording_files{seen}};
  REQUIRE(storage.write_atomic("x", io::produce("1")));
  CHECK(seen.calls ==
        calls{"create x.7.tmp", "write x.7.tmp", "sync x.7.tmp", "close x.7.tmp", "rename x.7.tmp x", "sync folder ."});
  seen.calls.clear();
  REQUIRE(storage.remove("x"));
  CHECK(seen.calls == calls{"unlink x", "sync folder ."});
}

TEST_CASE("file storage: whatever step fails, no later step runs but the removal of the temporary file", "[io][fast]") {
  const calls steps{"create x.7.tmp", "write x.7.tmp", "sync x.7.tmp", "close x.7.tmp", "rename x.7.tmp x"};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    record seen;
    seen.failing = steps[i];
    io::basic_file_storage storage{recording_files{seen}};
    const auto written = storage.write_atomic("x", io::produce("1"));
    REQUIRE_FALSE(written);
    CHECK(written.error().code == cw::errc::io_failed);
    calls expected(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(i + 1));
    expected.emplace_back("unlink x.7.tmp");
    CHECK(seen.calls == expected);
  }
  record seen;
  seen.failing = "sync folder .";
  io::basic_file_storage storage{recording_files{seen}};
  CHECK_FALSE(storage.write_atomic("x", io::produce("1")));
  CHECK_FALSE(storage.remove("x"));
}

TEST_CASE("file storage: a new folder is durable before anything is written into it", "[io][fast]") {
  record seen;
  seen.folders.insert("/run");
  io::basic_file_storage storage{recording_files{seen}};
  REQUIRE(storage.write_atomic("/run/a/b/x", io::produce("1")));
  seen.calls.resize(5);
  CHECK(seen.calls ==
        calls{"sync folder /", "make folder /run/a", "sync folder /run", "make folder /run/a/b", "sync folder /run/a"});
}

TEST_CASE("file storage: folders that were there are synced once, for a process may have died after making them",
          "[io][fast]") {
  record seen;
  for (const char* folder : {"/run", "/run/a"}) seen.folders.insert(folder);
  io::basic_file_storage storage{recording_files{seen}};
  const auto folder_syncs = [&] {
    calls found;
    for (const std::string& call : std::exchange(seen.calls, {})) {
      if (call.starts_with("sync folder")) found.push_back(call);
    }
    return found;
  };
  REQUIRE(storage.write_atomic("/run/a/x", io::produce("1")));
  CHECK(folder_syncs() == calls{"sync folder /", "sync folder /run", "sync folder /run/a"});
  auto copy = storage;
  REQUIRE(copy.write_atomic("/run/a/x", io::produce("1")));
  CHECK(folder_syncs() == calls{"sync folder /run/a"});
  seen.folders.erase("/run/a");  // removed by somebody else: made again, and synced again
  REQUIRE(storage.write_atomic("/run/a/x", io::produce("1")));
  CHECK(folder_syncs() == calls{"sync folder /run", "sync folder /run/a"});
}

TEST_CASE("file storage: folders above that may not be opened are left alone", "[io][fast]") {
  record seen;
  seen.closed = {"/", "/closed"};
  seen.folders.insert("/closed/mine");
  io::basic_file_storage storage{recording_files{seen}};
  REQUIRE(storage.write_atomic("/closed/mine/x", io::produce("1")));
  CHECK(seen.calls.front() == "create /closed/mine/x.7.tmp");
}

TEST_CASE("file storage: a folder whose sync failed is made anew by the next write", "[io][fast]") {
  record seen;
  seen.failing = "sync folder /";
  io::basic_file_storage storage{recording_files{seen}};
  CHECK_FALSE(storage.write_atomic("/a/x", io::produce("1")));
  CHECK(seen.calls == calls{"make folder /a", "sync folder /", "remove folder /a"});
  seen.failing.clear();
  seen.calls.clear();
  REQUIRE(storage.write_atomic("/a/x", io::produce("1")));
  CHECK(seen.calls.front() == "make folder /a");
}

TEST_CASE("file storage: an errno becomes a code and a remedy", "[io][fast]") {
  CHECK(io::os_error("x", "do it", ENOSPC).code == cw::errc::disk_full);
  CHECK(io::os_error("x", "do it", EDQUOT).code == cw::errc::disk_full);
  CHECK(io::os_error("x", "do it", ENOENT).code == cw::errc::not_found);
  CHECK(io::os_error("x", "do it", EACCES).message.find("permissions") != std::string::npos);
  CHECK(io::os_error("x", "do it", EIO).message.find("could not do it") == 0);
  CHECK(io::os_error("x", "do it", EBADF).where == "x");
}
