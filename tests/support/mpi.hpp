// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_MPI_HPP
#define CAUSEWAY_TESTS_SUPPORT_MPI_HPP

// What tests that run as the ranks of an MPI job share. All ranks run the same cases in the same order; a rank that fails
// one and leaves it early makes the others wait, and fail, until `soon`.

#include <causeway/net/mpi_transport.hpp>
#include <causeway/net/mpi_world.hpp>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace support {

/// The job that tests/mpi/main.cpp entered.
causeway::net::mpi_world& job();

/// A deadline that only a broken test reaches.
inline causeway::time_point soon() { return causeway::steady_clock{}.now() + std::chrono::seconds{60}; }

inline causeway::net::mpi_transport open_transport(const causeway::net::mpi_transport_options& options = {}) {
  auto opened = causeway::net::mpi_transport::open(job(), options);
  REQUIRE(opened);
  return std::move(*opened);
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span{text.data(), text.size()});
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_MPI_HPP
