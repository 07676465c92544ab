"""What a fit returns: estimates, intervals, summaries, and how they are saved."""
