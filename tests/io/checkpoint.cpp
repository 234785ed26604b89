// SPDX-License-Identifier: Apache-2.0
#include <causeway/io/checkpoint.hpp>

#include <causeway/io/file.hpp>
#include <causeway/io/memory_storage.hpp>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

#include <cstring>
#include <string>
#include <vector>

namespace cw = causeway;
namespace io = causeway::io;

namespace {

// The state of a run at a step: enough to see that what comes back is one step's whole state.
std::vector<io::section> state_at(std::uint64_t step) {
  return {{"model", 1, io::byte_vector(100 + step, static_cast<std::byte>(step))},
          {"data", 1, io::byte_vector(8, static_cast<std::byte>(step))}};
}

bool is_state_of(const io::section_file& file, std::uint64_t step) {
  const auto model = file.find("model");
  return file.stamp().step == step && model && model->bytes.size() == 100 + step &&
         model->bytes.front() == static_cast<std::byte>(step);
}

template <class S>
std::vector<std::uint64_t> steps_in(io::checkpoint_directory<S>& directory) {
  return directory.steps().value();
}

using steps = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("checkpoint: names sort like steps, and only exact names are ours", "[io][fast]") {
  CHECK(io::checkpoint_name(1234) == "step-00001234.ckpt");
  CHECK(io::checkpoint_name(12345678901) == "step-12345678901.ckpt");
  CHECK(io::checkpoint_step("step-00001234.ckpt") == 1234U);
  CHECK(io::checkpoint_step("step-12345678901.ckpt") == 12345678901U);
  for (const char* foreign : {"step-1234.ckpt", "step-00001234.ckpt.17.tmp", "step-0000123x.ckpt", "step-.ckpt", "step-",
                              "step-99999999999999999999999.ckpt", "best.ckpt", ".ckpt", "step-000001234.ckpt"}) {
    CHECK_FALSE(io::checkpoint_step(foreign));
  }
}

TEST_CASE("checkpoint: on disk, keeps two generations and loads the newest", "[io][fast]") {
  const cw::test::temporary_folder folder;
  io::checkpoint_directory directory{io::posix_storage{}, folder / "run/peer-0"};
  CHECK(directory.load_newest().error().code == cw::errc::not_found);
  folder.write("run/peer-0/step-00000001.ckpt.4711.tmp", "left by a process that died");
  folder.write("run/peer-0/notes.txt", "not ours");
  for (const std::uint64_t step : {10U, 20U, 30U}) REQUIRE(directory.save(step, state_at(step), 77));
  CHECK(steps_in(directory) == steps{20, 30});
  CHECK(io::posix_storage{}.list(folder / "run/peer-0").value() ==
        std::vector<std::string>{"notes.txt", "step-00000020.ckpt", "step-00000030.ckpt"});
  const auto loaded = directory.load_newest();
  REQUIRE(loaded);
  CHECK(is_state_of(loaded->file, 30));
  CHECK(loaded->file.stamp().run_id == 77);
  CHECK(loaded->note.empty());
  CHECK(is_state_of(directory.load(20).value(), 20));
  CHECK(directory.load(10).error().code == cw::errc::not_found);
}

TEST_CASE("checkpoint: a newest file torn at any byte falls back to the one before, and says so", "[io][fast]") {
  io::memory_storage measure;
  REQUIRE(io::checkpoint_directory{measure, "run"}.save(2, state_at(2)));
  const std::size_t length = measure.read("run/" + io::checkpoint_name(2)).value().size();
  for (std::size_t at = 0; at < length; ++at) {
    io::memory_storage storage{{.tear_write = 2, .tear_at = at}};
    io::checkpoint_directory directory{storage, "run"};
    REQUIRE(directory.save(1, state_at(1)));
    REQUIRE(directory.save(2, state_at(2)));
    const auto loaded = directory.load_newest();
    REQUIRE(loaded);
    REQUIRE(is_state_of(loaded->file, 1));
    CHECK(loaded->note.find("step-00000002.ckpt") != std::string::npos);
    CHECK(loaded->note.find("step-00000001.ckpt") != std::string::npos);
  }
}

TEST_CASE("checkpoint: a torn file does not count as a generation once it was found", "[io][fast]") {
  io::memory_storage storage{{.tear_write = 3, .tear_at = 50}};
  io::checkpoint_directory directory{storage, "run"};
  for (const std::uint64_t step : {1U, 2U, 3U}) REQUIRE(directory.save(step, state_at(step)));
  CHECK(is_state_of(directory.load_newest().value().file, 2));
  REQUIRE(directory.save(4, state_at(4)));
  CHECK(steps_in(directory) == steps{2, 4});  // not {3, 4}
}

TEST_CASE("checkpoint: a failed or too large write leaves both generations", "[io][fast]") {
  io::memory_storage storage{{.fail_write = 3}};
  io::checkpoint_directory directory{storage, "run"};
  for (const std::uint64_t step : {1U, 2U}) REQUIRE(directory.save(step, state_at(step)));
  CHECK(directory.save(3, state_at(3)).error().code == cw::errc::io_failed);
  CHECK(steps_in(directory) == steps{1, 2});
  storage.set_faults({.capacity = 700});
  CHECK(directory.save(3, state_at(3)).error().code == cw::errc::disk_full);
  CHECK(steps_in(directory) == steps{1, 2});
  storage.set_faults({});
  REQUIRE(directory.save(3, state_at(3)));
  CHECK(steps_in(directory) == steps{2, 3});
}

TEST_CASE("checkpoint: whatever single fault hits whatever save, a whole state not older than two saves is there",
          "[io][fast]") {
  constexpr std::uint64_t saves = 5;
  for (std::uint64_t hit = 2; hit <= saves; ++hit) {
    for (std::uint64_t bit = 0; bit < std::uint64_t{8} * 328; bit += 37) {  // all of the file
      for (const io::storage_faults faults :
           {io::storage_faults{.fail_write = hit}, io::storage_faults{.tear_write = hit, .tear_at = bit / 8},
            io::storage_faults{.flip_write = hit, .flip_bit = bit}}) {
        io::checkpoint_directory directory{io::memory_storage{faults}, "run"};
        for (std::uint64_t step = 1; step <= saves; ++step) {
          (void)directory.save(step, state_at(step));
          const auto loaded = directory.load_newest();
          REQUIRE(loaded);
          REQUIRE(is_state_of(loaded->file, loaded->file.stamp().step));
          REQUIRE(loaded->file.stamp().step == (step == hit ? step - 1 : step));
        }
      }
    }
  }
}

TEST_CASE("checkpoint: when none is whole the error lists names and reasons", "[io][fast]") {
  io::memory_storage storage{{.tear_write = 1, .tear_at = 20, .flip_write = 2, .flip_bit = 8 * 200}};
  io::checkpoint_directory directory{storage, "run"};
  for (const std::uint64_t step : {1U, 2U}) REQUIRE(directory.save(step, state_at(step)));
  const auto loaded = directory.load_newest();
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code == cw::errc::corrupt);
  for (const char* part : {"step-00000001.ckpt", "ends within its header", "step-00000002.ckpt", "\"model\""}) {
    INFO(loaded.error().message);
    CHECK(loaded.error().message.find(part) != std::string::npos);
  }
}

TEST_CASE("checkpoint: a whole file in a newer format stops the load instead of going back behind it", "[io][fast]") {
  io::memory_storage storage;
  io::checkpoint_directory directory{storage, "run"};
  for (const std::uint64_t step : {1U, 2U}) REQUIRE(directory.save(step, state_at(step)));
  io::byte_vector newer = storage.read("run/" + io::checkpoint_name(2)).value();
  newer[8] = std::byte{2};
  std::uint32_t header = 0;
  std::memcpy(&header, newer.data() + 40, 4);
  const std::uint64_t checksum = cw::hash_bytes(std::span{newer}.first(header - 8));
  std::memcpy(newer.data() + header - 8, &checksum, 8);
  REQUIRE(storage.write_atomic("run/" + io::checkpoint_name(2), io::produce(newer)));
  CHECK(directory.load_newest().error().code == cw::errc::version_mismatch);
}

TEST_CASE("checkpoint: the file just saved stays, also when the run went back", "[io][fast]") {
  io::checkpoint_directory directory{io::memory_storage{}, "run", 1};
  REQUIRE(directory.save(9, state_at(9)));
  REQUIRE(directory.save(5, state_at(5)));
  CHECK(is_state_of(directory.load(5).value(), 5));
  REQUIRE(directory.discard_after(5));
  CHECK(steps_in(directory) == steps{5});
}

TEST_CASE("checkpoint: old files that cannot be removed are no error and go the next time", "[io][fast]") {
  io::memory_storage storage{{.fail_removes = true}};
  io::checkpoint_directory directory{storage, "run", 1};
  for (const std::uint64_t step : {1U, 2U, 3U}) REQUIRE(directory.save(step, state_at(step)));
  CHECK(steps_in(directory) == steps{1, 2, 3});
  storage.set_faults({});
  REQUIRE(directory.save(4, state_at(4)));
  CHECK(steps_in(directory) == steps{4});
}

TEST_CASE("checkpoint: a trainer can hold any storage", "[io][fast]") {
  io::checkpoint_directory<io::any_storage> directory{io::any_storage{io::memory_storage{}}, "run"};
  REQUIRE(directory.save(1, state_at(1)));
  CHECK(is_state_of(directory.load_newest().value().file, 1));
}
