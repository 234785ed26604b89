// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/transfers.hpp>

#include "cuda/body_support.hpp"
#include "cuda/host_queue.hpp"
#include "cuda/wire_case.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <memory>
#include <vector>

using namespace causeway;
using namespace causeway_test;
using namespace causeway_test::wire_case;

TEST_CASE("cuda transfers: a message in pieces is the message, and pieces overlap on their way", "[cuda][fast]") {
  for_codecs([&](const auto& how) {
    INFO(how.name);
    thread_pool pool{1};
    const auto x = numbers(n, 3);
    std::vector<std::byte> expected(how.encoded_size(n));
    how.encode(pool, x, expected);
    for (const std::size_t piece : {1U, 256U, 600U, 1024U, 5000U}) {
      const auto report = std::make_shared<queue_report>();
      host_queue queue{report};
      std::vector<std::byte> bytes(how.encoded_size(n));
      if (how.block() == 1 && piece == 1) continue;
      REQUIRE(cuda::encode_to_host(queue, how, {x.data()}, n, bytes.data(), piece));
      CHECK(bytes == expected);
      CHECK(report->out == bytes.size());
      CHECK(report->most_under_way == (piece < n ? 2 : 1));
    }
  });
}
