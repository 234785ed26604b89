// SPDX-License-Identifier: Apache-2.0
#include <causeway/io/memory_storage.hpp>

#include "support/catch.hpp"

#include <string>

namespace cw = causeway;
namespace io = causeway::io;

namespace {

std::string stored(io::memory_storage& storage, const std::string& path) {
  const auto content = storage.read(path);
  return content ? std::string{reinterpret_cast<const char*>(content->data()), content->size()} : "absent";
}

}  // namespace

TEST_CASE("memory storage: exactly the n-th write fails and changes nothing", "[io][fast]") {
  io::memory_storage storage{{.fail_write = 2}};
  REQUIRE(storage.write_atomic("d/a", io::produce("1")));
  CHECK(storage.write_atomic("d/a", io::produce("2")).error().code == cw::errc::io_failed);
  CHECK(stored(storage, "d/a") == "1");
  REQUIRE(storage.write_atomic("d/a", io::produce("3")));
  CHECK(stored(storage, "d/a") == "3");
  CHECK(storage.writes() == 3);
}

TEST_CASE("memory storage: a torn write keeps a prefix and says it went well", "[io][fast]") {
  io::memory_storage storage{{.tear_write = 1, .tear_at = 3}};
  REQUIRE(storage.write_atomic("d/a", io::produce("abcdef")));
  CHECK(stored(storage, "d/a") == "abc");
}

TEST_CASE("memory storage: one bit is flipped", "[io][fast]") {
  io::memory_storage storage{{.flip_write = 1, .flip_bit = 8 + 5}};
  REQUIRE(storage.write_atomic("d/a", io::produce("abc")));
  CHECK(stored(storage, "d/a") == "aBc");
}

TEST_CASE("memory storage: full after so many bytes; replacing a file needs only its own room", "[io][fast]") {
  io::memory_storage storage{{.capacity = 10}};
  REQUIRE(storage.write_atomic("d/a", io::produce("123456")));
  const auto over = storage.write_atomic("d/b", io::produce("12345"));
  CHECK(over.error().code == cw::errc::disk_full);
  CHECK(stored(storage, "d/b") == "absent");
  REQUIRE(storage.write_atomic("d/a", io::produce("1234567890")));
}

TEST_CASE("memory storage: lists only what is right in the folder", "[io][fast]") {
  io::memory_storage storage;
  for (const char* path : {"d/b", "d/a", "d/e/f", "dx/c"}) REQUIRE(storage.write_atomic(path, io::produce("")));
  CHECK(storage.list("d").value() == std::vector<std::string>{"a", "b"});
  CHECK(storage.list("d/e/f").error().code == cw::errc::not_found);
}
