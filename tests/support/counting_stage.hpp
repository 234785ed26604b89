// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_COUNTING_STAGE_HPP
#define CAUSEWAY_TESTS_SUPPORT_COUNTING_STAGE_HPP

// A stage for swarm peers whose work can be counted.

#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/parallel/swarm/swarm_options.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace support {

/// A stage whose output is its input plus one, and whose gradient counts micro-batches. Numbers travel as one byte.
struct counting_stage : causeway::parallel::swarm_computer {
  explicit counting_stage(bool is_first, bool is_last) : first{is_first}, last{is_last} {}
  [[nodiscard]] std::size_t most_bytes(const causeway::parallel::swarm_crossing&) const override { return 1; }
  causeway::result<void> take_in(const causeway::parallel::swarm_crossing& c,
                                 const causeway::parallel::boundary_bytes& bytes) override {
    in = static_cast<int>(bytes->at(0));
    if (refused != c.micro_batch) return {};
    refused = UINT32_MAX;  // the second time it is in order
    ++refusals;
    return causeway::fail(causeway::errc::corrupt, "", "not a number");
  }
  causeway::result<causeway::parallel::swarm_output> forward(const causeway::parallel::swarm_crossing& output) override {
    if (first) in = static_cast<int>(output.micro_batch);
    if (last) loss = in;
    return causeway::parallel::swarm_output{loss, last ? nullptr : one_byte(in + 1)};
  }
  causeway::result<causeway::parallel::swarm_output> backward(const causeway::parallel::swarm_crossing&) override {
    gradient[0] += 1;
    return causeway::parallel::swarm_output{loss, first ? nullptr : one_byte(1)};
  }
  [[nodiscard]] std::span<float> gradients() override { return gradient; }
  [[nodiscard]] double squares() override { return double(gradient[0]) * double(gradient[0]); }
  static causeway::parallel::boundary_bytes one_byte(int v) {
    return std::make_shared<const std::vector<std::byte>>(1, static_cast<std::byte>(v));
  }
  bool first, last;
  int in = 0;
  double loss = 0;
  std::uint32_t refused = UINT32_MAX;  // this micro-batch
  int refusals = 0;
  std::vector<float> gradient = std::vector<float>(1);
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_COUNTING_STAGE_HPP
