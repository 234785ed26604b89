// SPDX-License-Identifier: Apache-2.0
#include <causeway/io/storage.hpp>

#include <causeway/io/file.hpp>
#include <causeway/io/memory_storage.hpp>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

#include <algorithm>
#include <string>

namespace cw = causeway;
namespace io = causeway::io;

namespace {

std::string text_of(const io::byte_vector& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// What every storage must do; `folder` is new.
void keeps_the_contract(io::any_storage storage, const std::string& folder) {
  const std::string path = folder + "/deep/er/file.bin";
  CHECK(storage.read(path).error().code == cw::errc::not_found);
  CHECK(storage.list(folder + "/deep").error().code == cw::errc::not_found);

  REQUIRE(storage.write_atomic(path, io::produce("one")));
  REQUIRE(storage.write_atomic(path, [](const io::byte_sink& sink) -> cw::result<void> {
    for (const char* piece : {"two", "", " pieces"}) CAUSEWAY_TRY(io::produce(std::string_view{piece})(sink));
    return {};
  }));
  CHECK(text_of(storage.read(path).value()) == "two pieces");

  // A producer that gives up leaves what was there, and nothing else.
  const auto stopped = storage.write_atomic(path, [](const io::byte_sink& sink) -> cw::result<void> {
    CAUSEWAY_TRY(io::produce("half")(sink));
    return cw::fail(cw::errc::cancelled, "test", "stopped");
  });
  CHECK(stopped.error().code == cw::errc::cancelled);
  CHECK(text_of(storage.read(path).value()) == "two pieces");

  REQUIRE(storage.write_atomic(folder + "/deep/er/another", io::produce("")));
  CHECK(storage.read(folder + "/deep/er/another").value().empty());
  CHECK(storage.list(folder + "/deep/er").value() == std::vector<std::string>{"another", "file.bin"});

  REQUIRE(storage.remove(path));
  REQUIRE(storage.remove(path));
  CHECK(storage.list(folder + "/deep/er").value() == std::vector<std::string>{"another"});
}

}  // namespace

TEST_CASE("storage: disk and memory keep the same contract", "[io][fast]") {
  const cw::test::temporary_folder folder;
  keeps_the_contract(io::any_storage{io::posix_storage{}}, folder.path());
  keeps_the_contract(io::any_storage{io::memory_storage{}}, "run");
}

TEST_CASE("storage: copies of any_storage share one storage", "[io][fast]") {
  io::any_storage first{io::memory_storage{}};
  io::any_storage second = first;
  REQUIRE(first.write_atomic("a/b", io::produce("x")));
  CHECK(text_of(second.read("a/b").value()) == "x");
}
