"""The Celery side: app, task functions, bell, event-loop bridge, roles, watchdog, scheduler. Nothing else imports Celery."""
