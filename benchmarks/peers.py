"""Our learner against what people would use instead: see benchmarks/peers/run.py, or `--help`."""

from peers.run import main  # the folder of that name beside this file

if __name__ == "__main__":
    main()
